package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	execution "psim/exec"
	"psim/exec/programs"
)

// diagnosis is what psim doctor finds.
type diagnosis struct {
	Psim   string   `json:"psim"`
	Go     string   `json:"go"`
	System string   `json:"system"`
	GoBack goHealth `json:"go_backend"`
	XLA    xlaState `json:"xla"`
	Advice []string `json:"advice"`
}

// goHealth is about the backend that is always there.
type goHealth struct {
	Works        bool    `json:"works"`
	Error        string  `json:"error,omitempty"`
	Devices      int     `json:"devices"` // one per core
	SIMDCompiled bool    `json:"simd_compiled"`
	SIMD         string  `json:"simd"`        // the instructions used
	MatrixSpeed  float64 `json:"flops_per_s"` // of one device
}

// xlaState is about the backend for GPUs.
type xlaState struct {
	Compiled  bool           `json:"compiled"`
	CCompiler string         `json:"c_compiler"`
	GPUs      []programs.GPU `json:"gpus"`
	Plugins   []pluginState  `json:"plugins"`
	Looked    []string       `json:"looked_in"`
	Works     bool           `json:"works"`
	Error     string         `json:"error,omitempty"`
	Devices   []string       `json:"devices"`
	Speed     float64        `json:"flops_per_s"` // of the first device
}

// pluginState is about one plugin that was found.
type pluginState struct {
	File      string   `json:"file"`
	Version   string   `json:"version,omitempty"` // of PJRT; where XLA is compiled in
	Libraries []string `json:"libraries"`
	Export    string   `json:"export,omitempty"`
	Error     string   `json:"error,omitempty"`
}

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say what works here, and what to do about what does not",
		Long: `doctor tries the backends that execute a graph: gomlx's own, which needs nothing,
and XLA for NVIDIA GPUs, which needs a build with -tags xla and a plugin. It says
what works here and what to do about what does not: without a GPU nothing is
missing, and psim exec runs on cores. It fails (exit code 1) only if gomlx's own
backend does not work.`,
		Example: "  psim doctor\n  psim doctor --json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := diagnosis{Psim: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Advice: []string{}}
			out, text := cmd.OutOrStdout(), cmd.OutOrStdout()
			if asJSON {
				text = io.Discard
			}
			// A plugin is C++ and may end the process: what is known is printed first.
			fmt.Fprintf(text, "psim %s, %s, %s\n\n", d.Psim, d.Go, d.System)
			d.examineGo()
			d.GoBack.write(text)
			search := programs.Search{Getenv: os.Getenv}
			d.examineXLA(search)
			d.XLA.write(text)
			d.advise(search)
			d.writeAdvice(text)
			if asJSON {
				encoder := json.NewEncoder(out)
				encoder.SetIndent("", "  ")
				encoder.SetEscapeHTML(false)
				if err := encoder.Encode(d); err != nil {
					return err
				}
			}
			return d.verdict()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object and nothing else")
	return cmd
}

// matrixSize and matrixTime are those of the speed check: large enough for the
// kernels to reach their speed, small enough for a second without them.
const (
	matrixSize = 512
	matrixTime = 300 * time.Millisecond
)

// examineGo opens as many devices as there are cores, which copies numbers
// between all of them.
func (d *diagnosis) examineGo() {
	h := &d.GoBack
	*h = goHealth{Devices: runtime.GOMAXPROCS(0), SIMDCompiled: programs.SIMDCompiled, SIMD: programs.SIMD()}
	devices, err := execution.OpenDevices(h.Devices, execution.DeviceOptions{Backend: "go"})
	if err == nil {
		defer execution.CloseDevices(devices)
		if err = devices[0].Try(); err == nil {
			h.MatrixSpeed, err = devices[0].MatrixSpeed(matrixSize, matrixTime)
		}
	}
	h.Works, h.Error = err == nil, message(err)
}

// examineXLA looks for everything that XLA needs and, where it is compiled in,
// tries the plugin that would be used.
func (d *diagnosis) examineXLA(search programs.Search) {
	found, looked := search.Plugins()
	x := &d.XLA
	*x = xlaState{
		Compiled: programs.XLACompiled, CCompiler: cCompiler(), Looked: looked,
		GPUs: append([]programs.GPU{}, search.GPUs()...), Plugins: []pluginState{}, Devices: []string{},
	}
	for _, plugin := range found {
		state := pluginState{File: plugin.File, Libraries: append([]string{}, plugin.Libraries...), Export: plugin.Export()}
		if x.Compiled {
			var err error
			state.Version, err = programs.PluginVersion(plugin)
			state.Error = message(err)
		}
		x.Plugins = append(x.Plugins, state)
	}
	if x.Compiled && len(found) > 0 {
		err := x.try(found[0])
		x.Works, x.Error = err == nil, message(err)
	}
}

// try opens all devices of a plugin and copies numbers between them.
func (x *xlaState) try(plugin programs.Plugin) error {
	devices, err := programs.OpenXLA(plugin, programs.ClientOptions{})
	if err != nil {
		return err
	}
	defer execution.CloseDevices(devices)
	for _, device := range devices {
		x.Devices = append(x.Devices, device.Description())
	}
	if err := execution.SelfTest(devices); err != nil {
		return err
	}
	if x.Speed, err = devices[0].MatrixSpeed(gpuMatrixSize, matrixTime); err != nil {
		return fmt.Errorf("measuring a matrix product: %w", err)
	}
	return nil
}

// gpuMatrixSize takes a GPU about as long as matrixSize takes a core.
const gpuMatrixSize = 4096

// cCompiler is the C compiler that go build would use; "" if there is none.
func cCompiler() string {
	names := []string{"gcc", "clang", "cc"}
	if set := strings.Fields(os.Getenv("CC")); len(set) > 0 {
		names = set[:1]
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// message is an error's text; "" for none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
