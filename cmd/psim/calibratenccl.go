package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel/calibrate"
	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// defaultLinkFile is where the link of psim calibrate --nccl is written to.
const defaultLinkFile = "my-link.toml"

// ncclCalibration is a link that was fitted to the output of nccl-tests.
type ncclCalibration struct {
	File    string         `json:"file"`
	Command string         `json:"command"`
	Inputs  []string       `json:"inputs"`
	Ranges  []ncclRange    `json:"ranges"`
	Link    calibratedLink `json:"link"`
	ncclFit                // to all timings
	Tables  []ncclTable    `json:"collectives"`
	// Warnings are of what the files leave open.
	Warnings []string `json:"warnings,omitempty"`

	link link.Link
}

// An ncclFit is how well a link fits timings. Errors are absolute fractions of the
// measured times: of all sizes by the fit to all, and, held out, of every second
// size by the fit to the others.
type ncclFit struct {
	Sizes        int      `json:"sizes"` // times that were read
	MeanError    float64  `json:"mean_error"`
	WorstError   float64  `json:"worst_error"`
	HeldOutError *float64 `json:"held_out_error,omitempty"` // mean; needs four sizes of a number of ranks
}

// An ncclTable is the fit to one kind of collective.
type ncclTable struct {
	Collective string   `json:"collective"` // as in a link: all_reduce …
	Inputs     []string `json:"inputs"`
	Smallest   int64    `json:"smallest_bytes"`
	Largest    int64    `json:"largest_bytes"`
	ncclFit
}

// ncclRange is one range of sizes of one number of ranks.
type ncclRange struct {
	Collective string  `json:"collective"`
	Ranks      int     `json:"ranks"`
	From       int64   `json:"from_bytes"`
	Call       float64 `json:"call_s"`
	Bandwidth  float64 `json:"bandwidth_bytes_per_s"`
}

// An ncclTiming is a time and the file that it is from.
type ncclTiming struct {
	calibrate.CollectiveTiming
	input string
}

// runNCCL fits a link to files and writes it.
func (f calibrateFlags) runNCCL(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 || len(f.sets) > 0 || f.samples != nil {
		return errors.New("--nccl fits a link to files and measures nothing here; leave out CONFIG, --set and --samples")
	}
	if err := f.check(); err != nil {
		return err
	}
	var timings []ncclTiming
	for _, path := range f.nccl {
		list, err := readNCCL(path)
		if err != nil {
			return fmt.Errorf("--nccl %w", err)
		}
		for _, t := range list {
			timings = append(timings, ncclTiming{t, path})
		}
	}
	found, err := fitNCCL(timings)
	if err != nil {
		return fmt.Errorf("--nccl: %w", err)
	}
	found.File, found.Inputs, found.Command = f.out, f.nccl, "psim calibrate"
	for _, path := range f.nccl {
		found.Command += " --nccl " + quoted(path)
	}
	found.Command += " --out " + quoted(f.out)
	render := func(w io.Writer) error { return configs.WriteLink(w, found.link, found.comment()) }
	if err := writeFiles(ctx, []file{{f.out, render}}); err != nil {
		return failure{err}
	}
	if f.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(found)
	}
	return found.write(stdout)
}

// largestNCCL is the largest file in bytes that is read.
const largestNCCL = 256 << 20

func readNCCL(path string) ([]calibrate.CollectiveTiming, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, reason(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	if info.Size() > largestNCCL {
		return nil, fmt.Errorf("%s: has %v, more than the output of any test; name a file of at most %v", path, units.Bytes(info.Size()), units.Bytes(largestNCCL))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, reason(err))
	}
	return calibrate.ReadNCCLTests(path, data)
}

// fitNCCL fits a link to all timings, and says how far off it is.
func fitNCCL(timings []ncclTiming) (*ncclCalibration, error) {
	l, err := calibrate.FitLink(bare(timings))
	if err != nil {
		return nil, err
	}
	l.Algorithm = link.Auto
	even, odd := halves(timings)
	half := link.Link{}
	if len(odd) > 0 {
		if half, err = calibrate.FitLink(bare(even)); err != nil {
			return nil, err
		}
	}
	c := &ncclCalibration{
		link: l, ncclFit: fitOf(l, timings, half, odd),
		Link: calibratedLink{time.Duration(l.Latency).Seconds(), float64(l.Bandwidth), time.Duration(l.Call).Seconds(), float64(l.Collective)},
	}
	for _, t := range l.Tables() {
		if len(t.Ranges) == 0 {
			continue
		}
		own := of(t.Kind, timings)
		table := ncclTable{Collective: t.Key, ncclFit: fitOf(l, own, half, of(t.Kind, odd))}
		table.Smallest, table.Largest = sizes(own)
		c.Warnings = append(c.Warnings, ncclWarnings(table.name(), own)...)
		for _, x := range own {
			if !slices.Contains(table.Inputs, x.input) {
				table.Inputs = append(table.Inputs, x.input)
			}
		}
		c.Tables = append(c.Tables, table)
		for _, r := range t.Ranges {
			c.Ranges = append(c.Ranges, ncclRange{t.Key, r.Ranks, int64(r.From), time.Duration(r.Call).Seconds(), float64(r.Bandwidth)})
		}
	}
	return c, nil
}

// fitOf is how well a link fits timings, and the link of every second size those
// that were held out.
func fitOf(l link.Link, timings []ncclTiming, half link.Link, heldOut []ncclTiming) ncclFit {
	fit := ncclFit{Sizes: len(timings)}
	fit.MeanError, fit.WorstError = ncclErrors(l, timings)
	if len(heldOut) > 0 {
		mean, _ := ncclErrors(half, heldOut)
		fit.HeldOutError = &mean
	}
	return fit
}

// sizes are the smallest and the largest in bytes.
func sizes(timings []ncclTiming) (smallest, largest int64) {
	smallest = math.MaxInt64
	for _, t := range timings {
		smallest, largest = min(smallest, t.Bytes), max(largest, t.Bytes)
	}
	return smallest, largest
}

// ncclWarnings are of what timings of one kind leave open, by numbers of ranks.
func ncclWarnings(name string, timings []ncclTiming) (list []string) {
	const enough = 16 << 20 // bytes, from which on start-up counts for little
	byRanks := map[int][]ncclTiming{}
	for _, t := range timings {
		byRanks[t.Ranks] = append(byRanks[t.Ranks], t)
	}
	for _, n := range slices.Sorted(maps.Keys(byRanks)) {
		own := byRanks[n]
		smallest, largest := sizes(own)
		switch {
		case smallest == largest:
			list = append(list, fmt.Sprintf("%ss over %d ranks have one size, %v: all of its time counts for bandwidth and none for start-up; measure several, with -b 8 -e 1G -f 2", name, n, units.Bytes(largest)))
		case largest < enough:
			list = append(list, fmt.Sprintf("%ss over %d ranks end at %v: what larger tensors take is not known from them; measure up to -e 1G", name, n, units.Bytes(largest)))
		}
		if own[0].Guessed {
			list = append(list, fmt.Sprintf("%ss over %d ranks are told by their numbers, and alltoall has the same: the file does not name its test, as nccl-tests do from 2.17 on", name, n))
		}
		if nodes := own[0].Nodes; nodes > 1 {
			list = append(list, fmt.Sprintf("%ss over %d ranks are of %d nodes, and psim takes the link for one inside a node: leave machine.devices_per_node out, so that all devices count as one", name, n, nodes))
		}
	}
	return list
}

// of are the timings of one kind of collective.
func of(k graph.Kind, timings []ncclTiming) []ncclTiming {
	return slices.DeleteFunc(slices.Clone(timings), func(t ncclTiming) bool { return t.Kind != k })
}

// bare are timings without their files.
func bare(timings []ncclTiming) (list []calibrate.CollectiveTiming) {
	for _, t := range timings {
		list = append(list, t.CollectiveTiming)
	}
	return list
}

// halves are every second size, and the others, of the kinds and numbers of ranks
// that have at least four.
func halves(timings []ncclTiming) (even, odd []ncclTiming) {
	const least = 4
	list := slices.Clone(timings)
	slices.SortStableFunc(list, func(a, b ncclTiming) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Bytes, b.Bytes))
	})
	for len(list) > 0 {
		end := slices.IndexFunc(list, func(t ncclTiming) bool { return t.Kind != list[0].Kind || t.Ranks != list[0].Ranks })
		if end < 0 {
			end = len(list)
		}
		for i, t := range list[:end] {
			switch {
			case end < least:
			case i%2 == 0:
				even = append(even, t)
			default:
				odd = append(odd, t)
			}
		}
		list = list[end:]
	}
	return even, odd
}

// ncclErrors are the mean and the worst absolute error of a link.
func ncclErrors(l link.Link, timings []ncclTiming) (mean, worst float64) {
	for _, t := range timings {
		off := math.Abs(float64(l.CollectiveTime(t.Kind, t.Ranks, t.Bytes))/float64(t.Time) - 1)
		mean, worst = mean+off/float64(len(timings)), max(worst, off)
	}
	return mean, worst
}
