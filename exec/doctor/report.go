package doctor

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"

	"psim/exec/backend"
	"psim/internal/units"
)

// writeRow prints a line of a diagnosis. Further lines of a text are put below it.
func writeRow(w io.Writer, name, format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	for line := range strings.Lines(text) {
		fmt.Fprintf(w, "  %s\t%s\n", name, strings.TrimRight(line, "\n"))
		name = ""
	}
}

// String says how much is free, and of what.
func (m Memory) String() string {
	if m.Container > 0 {
		return fmt.Sprintf("%s free of the container's %s, for all devices; "+
			"where that is too little, use fewer workers (--gpus N)",
			units.FormatBytes(m.Free), units.FormatBytes(m.Container))
	}
	return units.FormatBytes(m.Free) + " free, for all devices"
}

func (b GoBackend) write(out io.Writer, m Memory) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "backend go\t%s\n", works(b.Works))
	if b.Error != "" {
		writeRow(w, "error", "%s", b.Error)
	}
	writeRow(w, "virtual devices", "%d, one per core", b.Devices)
	writeRow(w, "memory", "%s", m)
	switch {
	case b.SIMD != "":
		writeRow(w, "vector kernels", "compiled in; they use %s", b.SIMD)
	case b.SIMDCompiled:
		writeRow(w, "vector kernels", "compiled in, but this processor lacks AVX2")
	case runtime.GOARCH == "amd64":
		writeRow(w, "vector kernels", "not compiled in: built without GOEXPERIMENT=simd")
	default:
		writeRow(w, "vector kernels", "not available for %s", runtime.GOARCH)
	}
	writeTrials(w, b.MatrixSpeed, matrixSize, b.Works && b.Devices > 1)
}

// writeTrials prints the speed of a matrix product, if it was measured, and whether devices
// have copied to each other.
func writeTrials(w io.Writer, speed float64, size int, copied bool) {
	if speed > 0 {
		writeRow(w, "matrix product", "%s (float32, %d×%d, one device)", units.FormatFLOPS(speed), size, size)
	}
	if copied {
		writeRow(w, "copies", "numbers survive between every two devices")
	}
	fmt.Fprintln(w)
}

// works returns a verdict on a backend.
func works(yes bool) string {
	if yes {
		return "works"
	}
	return "does not work"
}

func (x XLA) write(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	if x.Compiled {
		fmt.Fprintf(w, "backend xla\t%s\n", works(x.Works))
	} else {
		fmt.Fprintf(w, "backend xla\tnot compiled in\n")
	}
	if x.Error != "" {
		writeRow(w, "error", "%s", x.Error)
	}
	if x.Compiled && len(x.Libraries) > 0 {
		writeRow(w, "libraries", "%s", strings.Join(x.Libraries, ", "))
	}
	writeRow(w, "C compiler", "%s", cmp.Or(x.CCompiler, "none"))
	var gpus []string
	for _, g := range x.GPUs {
		gpus = append(gpus, strings.TrimSpace(g.Device+" "+g.Model))
	}
	writeRow(w, "GPUs", "%s", cmp.Or(strings.Join(gpus, "\n"), "none"))
	if x.Driver != "" {
		writeRow(w, "driver", "%s", x.Driver)
	}
	x.writePlugins(w)
	if len(x.Devices) > 0 {
		writeRow(w, "devices", "%s", strings.Join(x.Devices, "\n"))
	}
	if x.Off > 0 {
		writeRow(w, "float32", "a product is off by %.1e of its largest number (up to %.0e is right)", x.Off, mostOff)
	}
	writeTrials(w, x.Speed, x.size, x.Works && len(x.Devices) > 1)
}

func (x XLA) writePlugins(w io.Writer) {
	if len(x.Plugins) == 0 {
		writeRow(w, "plugins", "none")
	}
	name := "plugins"
	for i, p := range x.Plugins {
		remarks := []string{}
		if p.Version != "" {
			remarks = append(remarks, "PJRT "+p.Version)
		}
		if p.Platform != "" {
			remarks = append(remarks, "platform "+p.Platform)
		}
		if len(p.Libraries) > 0 {
			remarks = append(remarks, fmt.Sprintf("%d folders of libraries next to it", len(p.Libraries)))
		}
		if p.Error != "" && (i > 0 || x.Error == "") {
			remarks = append(remarks, p.Error)
		}
		text := p.File
		if len(remarks) > 0 {
			text += ": " + strings.Join(remarks, ", ")
		}
		writeRow(w, name, "%s", text)
		name = ""
	}
}

// advise says how to make the parts work that do not work but could on this machine.
func (d *Diagnosis) advise(search backend.PluginSearch) {
	add := func(format string, values ...any) { d.Advice = append(d.Advice, fmt.Sprintf(format, values...)) }
	if !d.GoBack.SIMDCompiled && runtime.GOARCH == "amd64" {
		add("to train about ten times as fast, build with GOEXPERIMENT=simd go build ./cmd/psim")
	}
	x := &d.XLA
	if !x.Compiled && (len(x.GPUs) > 0 || len(x.Plugins) > 0) {
		if x.CCompiler == "" {
			add("to use GPUs, install a C compiler (such as gcc)")
		}
		add("to use GPUs, build with GOEXPERIMENT=simd CGO_ENABLED=1 go build -tags xla ./cmd/psim")
	}
	if len(x.Plugins) == 0 && len(x.GPUs) > 0 {
		_, err := search.Find("")
		add("to use GPUs: %s", message(err))
	}
	if x.Compiled && !x.Works && len(x.GPUs) == 0 {
		add("no NVIDIA GPU was found (no /dev/nvidia0); if this machine has one, install its driver, or give the "+
			"container access to it; on cores, XLA needs a plugin for CPUs: pip install %s", backend.CPUPlugin)
	}
	for _, p := range x.Plugins {
		if p.Error == "" && x.Error != "" && p.File != x.Plugins[0].File {
			add("this one loads: --backend xla:%s", p.File)
		}
	}
	if x.Compiled && x.Error != "" && x.Plugins[0].Export != "" && !strings.Contains(x.Error, x.Plugins[0].Export) {
		add("if the plugin cannot find a library, run this before psim: %s", x.Plugins[0].Export)
	}
	d.Advice = append(d.Advice, missingOn(runtime.GOOS)...)
}

// missingOn returns what psim does on linux only, and what to mind elsewhere.
func missingOn(system string) (list []string) {
	if system != "linux" {
		list = append(list, "psim reads the free memory on linux only, and assumes 8 GiB on "+system+
			"; it keeps ranks on cores of their own on linux only, so measured times vary more on "+system)
	}
	if system != "linux" && system != "darwin" {
		list = append(list, "psim locks folders on linux and darwin only: on "+system+
			" do not let two commands write into one --out at once")
	}
	return list
}

func (d *Diagnosis) writeAdvice(w io.Writer) {
	if len(d.Advice) == 0 {
		fmt.Fprintln(w, "nothing to do")
		return
	}
	fmt.Fprintln(w, "to do")
	for _, advice := range d.Advice {
		fmt.Fprintf(w, "  - %s\n", strings.ReplaceAll(advice, "\n", "\n    "))
	}
}
