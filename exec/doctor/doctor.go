// Package doctor tries the backends that execute a graph. It says what works on this machine,
// and what to do about the rest.
package doctor

import (
	"cmp"
	"fmt"
	"io"
	"os"
	execute "os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"psim/exec/backend"
	"psim/internal/ram"
)

// A Diagnosis is the outcome of an examination.
type Diagnosis struct {
	Psim   string    `json:"psim"` // its version
	Go     string    `json:"go"`
	System string    `json:"system"`
	Memory Memory    `json:"memory"`
	GoBack GoBackend `json:"go_backend"`
	XLA    XLA       `json:"xla"`
	Advice []string  `json:"advice"`
}

// Memory is the memory that the devices of the backend go share.
type Memory struct {
	Free      int64 `json:"free_bytes"`
	Container int64 `json:"container_bytes,omitempty"` // limit of the container, if that limits the free memory
}

// GoBackend is about the backend that is always compiled in.
type GoBackend struct {
	Works        bool    `json:"works"`
	Error        string  `json:"error,omitempty"`
	Devices      int     `json:"devices"` // one per core
	SIMDCompiled bool    `json:"simd_compiled"`
	SIMD         string  `json:"simd"`        // the instructions used
	MatrixSpeed  float64 `json:"flops_per_s"` // of one device
}

// XLA is about the backend for GPUs.
type XLA struct {
	Compiled  bool          `json:"compiled"`
	CCompiler string        `json:"c_compiler"`
	GPUs      []backend.GPU `json:"gpus"`
	Plugins   []PluginCheck `json:"plugins"`
	Looked    []string      `json:"looked_in"`
	Works     bool          `json:"works"`
	Error     string        `json:"error,omitempty"`
	Driver    string        `json:"driver,omitempty"` // of NVIDIA's GPUs
	Libraries []string      `json:"libraries"`        // gomlx's, with their versions
	Devices   []string      `json:"devices"`
	Speed     float64       `json:"flops_per_s"`             // of the first device
	Off       float64       `json:"product_error,omitempty"` // of a product of float32, relative

	size int // of the product that was timed
}

// A PluginCheck is about one plugin that was found.
type PluginCheck struct {
	File      string   `json:"file"`
	Version   string   `json:"version,omitempty"`  // of PJRT, if XLA is compiled in
	Platform  string   `json:"platform,omitempty"` // that it reports: cpu, cuda, …
	Libraries []string `json:"libraries"`
	Export    string   `json:"export,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// Examine tries the backends for a version of psim. It writes what it finds as it goes, because
// a plugin is C++ and may end the process.
func Examine(version string, w io.Writer) Diagnosis {
	d := Diagnosis{
		Psim: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Advice: []string{},
	}
	fmt.Fprintf(w, "psim %s, %s, %s\n\n", d.Psim, d.Go, d.System)
	here := ram.Here()
	d.Memory = Memory{here.Free, here.Container}
	d.GoBack.examine()
	d.GoBack.write(w, d.Memory)
	search := backend.PluginSearch{Getenv: os.Getenv}
	d.XLA.examine(search)
	d.XLA.write(w)
	d.advise(search)
	d.writeAdvice(w)
	return d
}

// Err is an error if a backend, go or xla, does not work on this machine.
func (d Diagnosis) Err(needed string) error {
	without := "no plugin works"
	if !d.XLA.Compiled {
		without = "this build is without it"
	}
	switch {
	case needed == "xla" && !d.XLA.Works:
		return fmt.Errorf("the backend xla does not work: %s", cmp.Or(d.XLA.Error, without))
	case needed == "xla" || d.GoBack.Works:
		return nil
	}
	return fmt.Errorf("the backend go does not work: %s", d.GoBack.Error)
}

// The sizes of the matrices whose product is timed. On a core it is large enough for the
// kernels to reach their speed, and takes less than a second without them. On a GPU it takes
// about as long.
const (
	matrixSize    = 512
	gpuMatrixSize = 4096
	matrixTime    = 300 * time.Millisecond
)

// examine opens one device for each core, and copies numbers between all of them.
func (b *GoBackend) examine() {
	*b = GoBackend{Devices: runtime.GOMAXPROCS(0), SIMDCompiled: backend.SIMDCompiled, SIMD: backend.SIMD()}
	devices, err := backend.Open(b.Devices, backend.Options{Backend: "go"})
	if err == nil {
		defer backend.Close(devices)
		if err = devices[0].Try(); err == nil {
			b.MatrixSpeed, err = devices[0].MatrixSpeed(matrixSize, matrixTime)
		}
	}
	b.Works, b.Error = err == nil, message(err)
}

// examine looks for everything that XLA needs and, if XLA is compiled in, tries the plugin that
// would be used.
func (x *XLA) examine(search backend.PluginSearch) {
	found, looked := search.Plugins()
	*x = XLA{
		Compiled: backend.XLACompiled, CCompiler: cCompiler(), Looked: looked,
		GPUs: append([]backend.GPU{}, search.GPUs()...), Plugins: []PluginCheck{}, Devices: []string{},
		Driver: search.Driver(), Libraries: libraries(),
	}
	for _, p := range found {
		plugin := PluginCheck{File: p.File, Libraries: append([]string{}, p.Libraries...), Export: p.Export()}
		if x.Compiled {
			info, err := p.Inspect()
			plugin.Version, plugin.Platform, plugin.Error = info.Version, info.Platform, message(err)
		}
		x.Plugins = append(x.Plugins, plugin)
	}
	if x.Compiled && len(found) > 0 {
		err := x.try(found[0])
		x.Works, x.Error = err == nil, message(err)
	}
}

// try opens all devices of a plugin and copies numbers between them.
func (x *XLA) try(plugin backend.Plugin) error {
	devices, err := backend.OpenXLA(plugin, backend.ClientOptions{})
	if err != nil {
		return err
	}
	defer backend.Close(devices)
	for _, device := range devices {
		x.Devices = append(x.Devices, device.Description())
	}
	if err := backend.SelfTest(devices); err != nil {
		return err
	}
	if x.Off, err = devices[0].ProductError(); err != nil {
		return fmt.Errorf("checking a matrix product: %w", err)
	}
	if x.Off > mostOff {
		return fmt.Errorf("a product of float32 is off by %.1e; %.0e is usual, and more drops bits", x.Off, mostOff)
	}
	x.size = matrixSize
	if len(x.GPUs) > 0 {
		x.size = gpuMatrixSize
	}
	if x.Speed, err = devices[0].MatrixSpeed(x.size, matrixTime); err != nil {
		return fmt.Errorf("measuring a matrix product: %w", err)
	}
	return nil
}

// mostOff bounds what a product of float32 may be off.
const mostOff = 1e-5

// libraries lists the modules of gomlx that this program is built with, and their versions.
func libraries() (list []string) {
	list = []string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if name, ok := strings.CutPrefix(m.Path, "github.com/gomlx/"); ok {
				list = append(list, name+" "+m.Version)
			}
		}
	}
	return list
}

// cCompiler finds the C compiler that go build would use, or returns "".
func cCompiler() string {
	names := []string{"gcc", "clang", "cc"}
	if set := strings.Fields(os.Getenv("CC")); len(set) > 0 {
		names = set[:1]
	}
	for _, name := range names {
		if path, err := execute.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// message returns the text of an error; "" for nil.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
