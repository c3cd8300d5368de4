// Command pytorch times psim's kernels on the Go backend, on XLA where a plugin is found, and PyTorch's, in
// turns on one core, and prints the first part of docs/pytorch.md. If PyTorch is missing, it says how to
// install it.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"psim/exec/backend"
	"psim/exec/pytorch"
	"psim/internal/cores"
	"psim/internal/units"
)

func main() {
	log.SetFlags(0)
	only := flag.String("kernels", ".", "times the kernels whose names match `expression`")
	tried := flag.Bool("forms", false, "times the forms of XLA's kernels, and prints their part of the page")
	flag.Parse()
	if err := run(*only, *tried); err != nil {
		log.Fatal(err)
	}
}

// rounds is the number of times that every kernel runs on all sides, in turns. The median
// counts.
const rounds = 3

func run(only string, tried bool) error {
	picked, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "psim-pytorch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ours, xla, err := builds(folder, tried)
	if err != nil {
		return err
	}
	if err := oneCore(); err != nil {
		return err
	}
	torch, err := start()
	if err != nil {
		return err
	}
	defer torch.stop()
	if tried {
		return forms(picked, xla, torch)
	}
	var rows []row
	var loads []string
	for _, k := range kernels {
		if !picked.MatchString(k.name) {
			continue
		}
		r := row{kernel: k}
		for round := range rounds {
			fmt.Fprintf(os.Stderr, "%s, round %d of %d\n", k.title, round+1, rounds)
			if err := r.measure(ours, xla, torch); err != nil {
				return fmt.Errorf("%s: %w", k.title, err)
			}
		}
		rows, loads = append(rows, r), append(loads, load())
	}
	if rows == nil {
		return fmt.Errorf("no kernel matches %q", only)
	}
	printDocument(torch, xla, rows, loads)
	return nil
}

// oneCore keeps this process, and those that it starts, on one core.
func oneCore() error {
	allowed, err := cores.Allowed()
	if err == nil {
		_, err = cores.Confine(allowed[:1])
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // one thread each must do
	}
	return err
}

// A bench is a program with the benchmarks of exec/kernels, for one backend.
type bench struct {
	program string // "" if the backend is not to be had
	plugin  string // of XLA
}

// builds builds the benchmarks for the Go backend, unless only forms of XLA's are wanted, and for XLA.
func builds(folder string, tried bool) (ours, xla bench, err error) {
	if !tried {
		ours, err = build(filepath.Join(folder, "go.test"))
	}
	if err == nil {
		xla, err = buildXLA(filepath.Join(folder, "xla.test"))
	}
	return ours, xla, err
}

// build builds the benchmarks for the Go backend or, with the tag, for XLA.
func build(program string, flags ...string) (bench, error) {
	c := exec.Command("go", append([]string{"test", "-c", "-o", program}, append(flags, "psim/exec/kernels")...)...)
	c.Env = append(os.Environ(), "GOEXPERIMENT=simd")
	if flags != nil {
		c.Env = append(c.Env, "CGO_ENABLED=1")
	}
	if out, err := c.CombinedOutput(); err != nil {
		return bench{}, fmt.Errorf("building psim's kernels: %w\n%s", err, out)
	}
	return bench{program: program}, nil
}

// buildXLA builds the benchmarks for the plugin that psim finds. Without one it says where it looked.
func buildXLA(program string) (bench, error) {
	plugin, err := backend.PluginSearch{Getenv: os.Getenv}.Find("")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return bench{}, nil
	}
	b, err := build(program, "-tags", "xla")
	b.plugin = plugin.File
	return b, err
}

// A row holds the times of a kernel in every round.
type row struct {
	kernel
	psim, xla, torch []float64 // milliseconds of CPU; xla may be empty
}

func (r *row) measure(ours, xla bench, torch *side) error {
	ms, err := ours.time(r.name, r.times)
	if err != nil {
		return err
	}
	r.psim = append(r.psim, ms)
	if xla.program != "" {
		if ms, err = xla.time(r.name, r.times); err != nil {
			return err
		}
		r.xla = append(r.xla, ms)
	}
	if ms, err = torch.time(r.name, r.times); err != nil {
		return err
	}
	r.torch = append(r.torch, ms)
	return nil
}

// ratio returns the median of the rounds' ratios to PyTorch.
func (r row) ratio(of []float64) float64 {
	var ratios []float64
	for i := range of {
		ratios = append(ratios, of[i]/r.torch[i])
	}
	return units.Median(ratios)
}

var cpu = regexp.MustCompile(`([0-9.e+]+) cpu-ms/op`)

// time runs a benchmark of exec/kernels and returns the milliseconds of CPU that one
// forward and backward took.
func (b bench) time(name string, times int) (float64, error) {
	out, err := b.run("^BenchmarkKernels$/^"+name+"$", times)
	if err != nil {
		return 0, err
	}
	found := cpu.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("psim lacks a benchmark of that name:\n%s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// run runs benchmarks of exec/kernels and returns what they print.
func (b bench) run(names string, times int, flags ...string) ([]byte, error) {
	c := exec.Command(b.program, append([]string{"-test.run", "^$",
		"-test.bench", names, "-test.benchtime", fmt.Sprint(times, "x")}, flags...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "PSIM_BACKEND=go")
	if b.plugin != "" {
		c.Env = append(c.Env, "PSIM_BACKEND=xla:"+b.plugin)
	}
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("psim: %w\n%s", err, out)
	}
	return out, nil
}

//go:embed kernels.py
var script string

// A side is a process of PyTorch that times kernels on request.
type side struct {
	*exec.Cmd
	ask              io.WriteCloser
	answers          *bufio.Reader
	version, library string // library multiplies its matrices
}

// start starts the Python with PyTorch that psim finds.
func start() (*side, error) {
	python, err := pytorch.Find(context.Background())
	if err != nil {
		return nil, err
	}
	p := &side{Cmd: exec.Command(python, "-c", script)}
	p.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1")
	p.Stderr = os.Stderr
	if p.ask, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		return nil, err
	}
	hello, err := p.answers.ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("PyTorch did not start: %w", err)
	}
	p.version, p.library, _ = strings.Cut(strings.TrimSpace(hello), "\t")
	if p.library == "" {
		p.stop()
		return nil, errors.New("this PyTorch multiplies without MKL or another BLAS, forty times slower than " +
			"with it, so a comparison would say nothing; make peers-python installs one with MKL")
	}
	return p, nil
}

// time returns the milliseconds of CPU that a kernel took.
func (p *side) time(name string, times int) (float64, error) {
	if _, err := fmt.Fprintf(p.ask, "%s\t%d\n", name, times); err != nil {
		return 0, fmt.Errorf("PyTorch: %w", err)
	}
	line, err := p.answers.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("PyTorch: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

func (p *side) stop() {
	p.ask.Close()
	_ = p.Wait() // the process has printed its own errors
}
