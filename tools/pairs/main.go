// Command pairs runs two devices in one process and in two processes, in turns, and compares
// their steps. The two processes communicate over sockets, and over MPI if mpicc and mpirun
// are installed. Arguments go to psim exec.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"psim/internal/units"
	"psim/results"
)

func main() {
	log.SetFlags(0)
	pairs := flag.Int("pairs", 9, "how many pairs to run; the median of their ratios counts")
	steps := flag.Int("steps", 15, "how many steps a run measures")
	flag.Parse()
	line := fmt.Sprintf("exec exec --gpus 2 --warmup 2 --steps %d --repeats 1 --json --quiet", *steps)
	if err := compare(os.Stdout, *pairs, append(strings.Fields(line), flag.Args()...)); err != nil {
		log.Fatal(err)
	}
}

// A side is a way to run two devices.
type side struct {
	name    string
	command []string
	medians []float64 // of the measured steps, by pair, in seconds
}

// compare builds psim, and runs a command line of psim on all sides.
func compare(w io.Writer, pairs int, line []string) error {
	folder, err := os.MkdirTemp("", "psim-pairs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	list, err := sides(folder, line)
	if err != nil {
		return err
	}
	for k := range list {
		fmt.Fprintf(w, "%s: %s\n", list[k].name, strings.ReplaceAll(strings.Join(list[k].command, " "), folder+"/", ""))
	}
	fmt.Fprintln(w)
	return inTurns(w, pairs, list)
}

// inTurns runs all sides once for each pair, beginning with another side each time, and
// prints how much longer than the first side the others take.
func inTurns(w io.Writer, pairs int, list []side) error {
	for n := range pairs {
		for k := range list {
			if err := list[(n+k)%len(list)].run(); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "pair %d: %s", n+1, duration(list[0].medians[n]))
		for _, s := range list[1:] {
			longer := units.FormatSignedPercent(s.medians[n]/list[0].medians[n] - 1)
			fmt.Fprintf(w, ", %s %s (%s)", s.name, duration(s.medians[n]), longer)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, s := range list[1:] {
		ratios := make([]float64, pairs)
		for n := range ratios {
			ratios[n] = s.medians[n] / list[0].medians[n]
		}
		fmt.Fprintf(w, "%s against %s: %s, the median of %s (%s to %s)\n", s.name, list[0].name,
			units.FormatSignedPercent(units.Median(ratios)-1), units.Plural(pairs, "pair"),
			units.FormatSignedPercent(slices.Min(ratios)-1), units.FormatSignedPercent(slices.Max(ratios)-1))
	}
	return nil
}

// sides builds psim into a folder, without MPI and, if MPI is installed, with it.
func sides(folder string, line []string) ([]side, error) {
	plain, with := filepath.Join(folder, "psim"), filepath.Join(folder, "psim-mpi")
	if err := build(plain, "CGO_ENABLED=0"); err != nil {
		return nil, err
	}
	list := []side{
		{name: "one process", command: append([]string{plain}, line...)},
		{name: "two over sockets", command: append(append([]string{plain}, line...), "--processes", "2")},
	}
	for _, program := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(program); err != nil {
			log.Printf("without MPI, which needs %s", program)
			return list, nil
		}
	}
	if err := build(with, "CGO_ENABLED=1", "CC=mpicc"); err != nil {
		return nil, err
	}
	start := []string{"mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "2", with}
	return append(list, side{name: "two over MPI", command: append(start, line...)}), nil
}

// build builds psim with settings of the environment. A setting of CC means a build with MPI.
func build(program string, settings ...string) error {
	command := exec.Command("go", "build", "-o", program)
	if len(settings) > 1 {
		command.Args = append(command.Args, "-tags", "mpi")
	}
	command.Args = append(command.Args, "psim/cmd/psim")
	command.Env = append(append(os.Environ(), "GOEXPERIMENT=simd"), settings...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building psim: %w\n%s", err, out)
	}
	return nil
}

// run adds the median step of one more run.
func (s *side) run() error {
	command := exec.Command(s.command[0], s.command[1:]...)
	var messages bytes.Buffer
	command.Stderr = &messages
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", s.name, err, messages.Bytes())
	}
	r, err := results.ReadResult(bytes.NewReader(out))
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.medians = append(s.medians, r.StepTimeMedian)
	return nil
}

func duration(seconds float64) string {
	return units.FormatDuration(time.Duration(seconds * float64(time.Second)))
}
