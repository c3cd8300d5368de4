// Command pytorch times psim's kernels and PyTorch's, in turns on one core, and prints
// docs/pytorch.md. If PyTorch is missing, it says how to install it.
package main

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"psim/internal/units"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// rounds is the number of times that every kernel runs on both sides, in turns. The median
// counts.
const rounds = 5

func run() error {
	folder, err := os.MkdirTemp("", "psim-pytorch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	torch, err := start()
	if err != nil {
		return err
	}
	defer torch.stop()
	ours := filepath.Join(folder, "programs.test")
	build := exec.Command("go", "test", "-c", "-o", ours, "psim/exec/kernels")
	build.Env = append(os.Environ(), "GOEXPERIMENT=simd")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building psim's kernels: %w\n%s", err, out)
	}
	var rows []row
	for _, k := range kernels {
		r := row{kernel: k}
		for round := range rounds {
			fmt.Fprintf(os.Stderr, "%s, round %d of %d\n", k.title, round+1, rounds)
			if err := r.measure(ours, torch); err != nil {
				return fmt.Errorf("%s: %w", k.title, err)
			}
		}
		rows = append(rows, r)
	}
	printDocument(torch, rows)
	return nil
}

// A row holds the times of a kernel in every round.
type row struct {
	kernel
	psim, torch []float64 // milliseconds of CPU
}

func (r *row) measure(program string, torch *pytorch) error {
	ms, err := psim(program, r.name, r.times)
	if err != nil {
		return err
	}
	r.psim = append(r.psim, ms)
	if ms, err = torch.time(r.name, r.times); err != nil {
		return err
	}
	r.torch = append(r.torch, ms)
	return nil
}

// ratio returns the median of the rounds' ratios.
func (r row) ratio() float64 {
	var ratios []float64
	for i := range r.psim {
		ratios = append(ratios, r.psim[i]/r.torch[i])
	}
	return units.Median(ratios)
}

var cpu = regexp.MustCompile(`([0-9.e+]+) cpu-ms/op`)

// psim runs a benchmark of exec/kernels and returns the milliseconds of CPU that one
// forward and backward took.
func psim(program, name string, times int) (float64, error) {
	c := exec.Command(program, "-test.run", "^$",
		"-test.bench", "^BenchmarkKernels$/^"+name+"$", "-test.benchtime", fmt.Sprint(times, "x"))
	c.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := c.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("psim: %w\n%s", err, out)
	}
	found := cpu.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("psim lacks a benchmark of that name:\n%s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

//go:embed kernels.py
var script string

// A pytorch is a process that times kernels on request.
type pytorch struct {
	*exec.Cmd
	ask           io.WriteCloser
	answers       *bufio.Reader
	version, blas string
}

const install = "apt-get install python3-torch libopenblas0-pthread (Debian's, for /usr/bin/python3)"

// start finds a Python that has PyTorch.
func start() (*pytorch, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import torch").Run() == nil {
			return startWith(python)
		}
	}
	return nil, errors.New("no python3 here can import torch; to install it: " + install)
}

func startWith(python string) (*pytorch, error) {
	p := &pytorch{Cmd: exec.Command(python, "-c", script)}
	p.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1")
	p.Stderr = os.Stderr
	var err error
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
	p.version, p.blas, _ = strings.Cut(strings.TrimSpace(hello), "\t")
	if p.blas == "" {
		p.stop()
		return nil, errors.New("PyTorch multiplies without OpenBLAS or MKL here, " +
			"forty times slower than with it, so a comparison would say nothing; to install it: " + install)
	}
	return p, nil
}

// time returns the milliseconds of CPU that a kernel took.
func (p *pytorch) time(name string, times int) (float64, error) {
	if _, err := fmt.Fprintf(p.ask, "%s\t%d\n", name, times); err != nil {
		return 0, fmt.Errorf("PyTorch: %w", err)
	}
	line, err := p.answers.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("PyTorch: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

func (p *pytorch) stop() {
	p.ask.Close()
	_ = p.Wait() // the process has printed its own errors
}
