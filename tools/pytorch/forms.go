package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
)

const formsHead = `## Forms tried on XLA

This part is the output of ` + "`make forms`" + `: ways to compute the kernels that were slower on XLA than PyTorch's
(exec/kernels/forms_test.go), in milliseconds of one core's CPU as above, on the plugin
%s (%s, %s). Each is the median of %d runs.
The first form of a kernel is in use. Three that are faster are not: a variance from squares loses the digits of rows
whose mean is large, copies of weights take memory as large as the weights, and tiles of convolutions round more.
GELU's forms differ less than runs of one of them do.

`

// A tried form of a kernel, with the times of its runs.
type tried struct {
	kernel
	name  string
	ms    []float64
	used  float64 // of the form in use
	torch float64
}

// timed finds a benchmark's name and time.
var timed = regexp.MustCompile(`(?m)^BenchmarkForms/[^/\s]+/(\S+)\s.*?([0-9.e+]+) cpu-ms/op`)

// forms times the forms of every picked kernel that has some, and prints a table of them.
func forms(picked *regexp.Regexp, xla bench, torch *side) error {
	if xla.program == "" {
		return errors.New("forms are XLA's: make xla-plugin fetches a plugin")
	}
	var rows []tried
	for _, k := range kernels {
		if !picked.MatchString(k.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, k.title)
		out, err := xla.run("^BenchmarkForms$/^"+k.name+"$", k.times, "-test.count", fmt.Sprint(rounds))
		if err != nil {
			return err
		}
		found, err := readForms(k, string(out))
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		ms, err := torch.time(k.name, k.times*rounds)
		if err != nil {
			return err
		}
		for i := range found {
			found[i].torch = ms
		}
		rows = append(rows, found...)
	}
	if rows == nil {
		return errors.New("no kernel of that name has forms")
	}
	fmt.Printf(formsHead, library(xla.plugin), processor(), runtime.Version(), rounds)
	table.Table[tried]{Rows: rows, Columns: []table.Column[tried]{
		{Head: "kernel", Left: true, Cell: func(r tried) any { return r.title }},
		{Head: "shape", Left: true, Cell: func(r tried) any { return r.shape }},
		{Head: "form", Left: true, Cell: func(r tried) any { return r.name }},
		{Head: "ms", Cell: func(r tried) any { return spread(r.ms) }},
		{Head: "/ in use", Cell: func(r tried) any { return fmt.Sprintf("%.2f", units.Median(r.ms)/r.used) }},
		{Head: "/ PyTorch", Cell: func(r tried) any { return fmt.Sprintf("%.2f", units.Median(r.ms)/r.torch) }},
	}}.Markdown(os.Stdout)
	return nil
}

// readForms reads the times of a kernel's forms; the first is the one in use.
func readForms(k kernel, out string) (list []tried, err error) {
	for _, m := range timed.FindAllStringSubmatch(out, -1) {
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		name := strings.ReplaceAll(m[1], "_", " ")
		if name == "memory" { // not a form: BenchmarkForms
			continue
		}
		if last := len(list) - 1; last < 0 || list[last].name != name {
			list = append(list, tried{kernel: k, name: name})
		}
		list[len(list)-1].ms = append(list[len(list)-1].ms, ms)
	}
	for i := range list {
		list[i].used = units.Median(list[0].ms)
	}
	return list, nil
}
