package calibrate

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"psim/costmodel/link"
	"psim/internal/files"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A LinkFit is a link that was fitted to the output of nccl-tests.
type LinkFit struct {
	// File is the file to which the link was written, and Command the command that wrote it.
	File    string        `json:"file"`
	Command string        `json:"command"`
	Inputs  []string      `json:"inputs"`
	Ranges  []FittedRange `json:"ranges"`
	Link    LinkConstants `json:"link"`
	FitErrors
	Tables []FittedTable `json:"collectives"`
	// Warnings say what the files leave open.
	Warnings []string `json:"warnings,omitempty"`

	link, network link.Link // to write; without a bandwidth they are omitted
}

// LinkConstants are a link's constants, in seconds and bytes per second.
type LinkConstants struct {
	Latency   float64 `json:"latency_s"`
	Bandwidth float64 `json:"bandwidth_bytes_per_s"`
	// Call is the time of a collective in addition to the latency of its steps.
	Call       float64 `json:"collective_call_s"`
	Collective float64 `json:"collective_bandwidth_bytes_per_s"`
}

// NewLinkConstants returns the constants of a link.
func NewLinkConstants(l link.Link) LinkConstants {
	return LinkConstants{
		Latency: time.Duration(l.Latency).Seconds(), Bandwidth: float64(l.Bandwidth),
		Call: time.Duration(l.Call).Seconds(), Collective: float64(l.Collective),
	}
}

// FitErrors say how well a link fits timings, as absolute fractions of the measured
// times: all sizes with the fit to all, and held out, every second size with the fit to
// the others.
type FitErrors struct {
	Sizes        int      `json:"sizes"` // times that were read
	MeanError    float64  `json:"mean_error"`
	WorstError   float64  `json:"worst_error"`
	HeldOutError *float64 `json:"held_out_error,omitempty"` // mean; needs four sizes of a number of ranks
}

// A FittedTable is the fit to one kind of collective.
type FittedTable struct {
	Collective string   `json:"collective"` // as in a link: all_reduce …
	Inputs     []string `json:"inputs"`
	Smallest   int64    `json:"smallest_bytes"`
	Largest    int64    `json:"largest_bytes"`
	FitErrors
}

// A FittedRange is one range of sizes for one number of ranks.
type FittedRange struct {
	Collective string  `json:"collective"`
	Ranks      int     `json:"ranks"`
	From       int64   `json:"from_bytes"`
	Call       float64 `json:"call_s"`
	Bandwidth  float64 `json:"bandwidth_bytes_per_s"`
}

type timings []CollectiveTiming

// FitLink fits a link to files, and measures the errors of the fit. The files hold the
// output of nccl-tests' all_reduce_perf, all_gather_perf and reduce_scatter_perf, or of
// psim exec with such a collective, as text or JSON.
func FitLink(paths ...string) (*LinkFit, error) {
	byFile, err := readEach(paths)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(byFile...)
	fitted, err := FitTimings(all)
	if err != nil {
		return nil, err
	}
	fitted.Algorithm = link.Auto
	written, network, err := splitNodes(fitted, all)
	if err != nil {
		return nil, err
	}
	even, odd := all.halves()
	var half link.Link // fitted to every second size
	if len(odd) > 0 {
		if half, err = FitTimings(even); err != nil {
			return nil, err
		}
	}
	f := &LinkFit{
		link: written, network: network, Inputs: paths, Link: NewLinkConstants(fitted),
		FitErrors: all.errors(fitted, half, odd),
	}
	for _, t := range fitted.Tables() {
		own := all.ofKind(t.Kind)
		if len(own) == 0 {
			continue
		}
		table := FittedTable{
			Collective: t.Key, Inputs: inputs(t.Kind, paths, byFile),
			FitErrors: own.errors(fitted, half, odd.ofKind(t.Kind)),
		}
		table.Smallest, table.Largest = own.sizes()
		f.Tables = append(f.Tables, table)
		f.Warnings = append(f.Warnings, own.warnings(table.name())...)
		f.Ranges = append(f.Ranges, fittedRanges(t)...)
		f.Warnings = append(f.Warnings, bandwidthWarnings(table.name(), t)...)
	}
	return f, nil
}

// readEach reads files, and refuses a file that is given twice.
func readEach(paths []string) (byFile []timings, err error) {
	byFile = make([]timings, len(paths))
	for i, path := range paths {
		if slices.ContainsFunc(paths[:i], func(earlier string) bool { return files.Same(earlier, path) }) {
			return nil, fmt.Errorf("%s: is given twice, and its times would count twice; give every file once", path)
		}
		if byFile[i], err = readNCCLTests(path); err != nil {
			return nil, err
		}
	}
	return byFile, nil
}

// fittedRanges lists the ranges of a table for a LinkFit.
func fittedRanges(t link.CollectiveTable) (list []FittedRange) {
	for _, r := range t.Ranges {
		list = append(list, FittedRange{
			Collective: t.Key, Ranks: r.Ranks, From: int64(r.From),
			Call: time.Duration(r.Call).Seconds(), Bandwidth: float64(r.Bandwidth),
		})
	}
	return list
}

// splitNodes returns the link inside a node and the network. If there are all-reduces over
// several nodes, all timings over several nodes count for the network only.
func splitNodes(fitted link.Link, all timings) (inside, network link.Link, err error) {
	within, across := Split(all)
	if network, err = FitNetwork(across); err != nil || network.Bandwidth == 0 {
		return fitted, network, err
	}
	if len(within) > 0 {
		inside, err = FitTimings(within)
		inside.Algorithm = link.Auto
	}
	return inside, network, err
}

// inputs lists the files that have timings of a kind.
func inputs(k graph.Kind, paths []string, byFile []timings) (list []string) {
	for i, path := range paths {
		if len(byFile[i].ofKind(k)) > 0 {
			list = append(list, path)
		}
	}
	return list
}

// largestNCCL is the largest size of a file, in bytes.
const largestNCCL = 256 << 20

func readNCCLTests(path string) (timings, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s: %s", path, files.Reason(err))
	} else if info.Size() > largestNCCL {
		return nil, fmt.Errorf("%s: has %v, more than the output of any test; name a file of at most %v",
			path, units.Bytes(info.Size()), units.Bytes(largestNCCL))
	}
	data, err := files.Read(path, io.ReadAll)
	if err != nil {
		return nil, err
	}
	return ReadNCCLTests(path, data)
}

// errors measures the errors of a link, and those of the link that was fitted to half the
// sizes for the sizes that were held out.
func (list timings) errors(l, half link.Link, heldOut timings) FitErrors {
	e := FitErrors{Sizes: len(list)}
	e.MeanError, e.WorstError = list.relativeErrors(l)
	if len(heldOut) > 0 {
		mean, _ := heldOut.relativeErrors(half)
		e.HeldOutError = &mean
	}
	return e
}

func (list timings) relativeErrors(l link.Link) (mean, worst float64) {
	for _, t := range list {
		off := math.Abs(float64(l.CollectiveTime(t.Kind, t.Ranks, t.Bytes))/float64(t.Time) - 1)
		mean, worst = mean+off/float64(len(list)), max(worst, off)
	}
	return mean, worst
}

func (list timings) sizes() (smallest, largest int64) {
	smallest = math.MaxInt64
	for _, t := range list {
		smallest, largest = min(smallest, t.Bytes), max(largest, t.Bytes)
	}
	return smallest, largest
}

func (list timings) ofKind(k graph.Kind) timings {
	return slices.DeleteFunc(slices.Clone(list), func(t CollectiveTiming) bool { return t.Kind != k })
}

// groups returns the timings of one kind and number of ranks together, by size.
func (list timings) groups() (groups []timings) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b CollectiveTiming) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Bytes, b.Bytes))
	})
	for i, t := range list {
		if i == 0 || t.Kind != list[i-1].Kind || t.Ranks != list[i-1].Ranks {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], t)
	}
	return groups
}

// halves returns every second size, and the others, of the kinds and numbers of ranks
// that have at least four.
func (list timings) halves() (even, odd timings) {
	const least = 4
	for _, group := range list.groups() {
		for i, t := range group {
			switch {
			case len(group) < least:
			case i%2 == 0:
				even = append(even, t)
			default:
				odd = append(odd, t)
			}
		}
	}
	return even, odd
}
