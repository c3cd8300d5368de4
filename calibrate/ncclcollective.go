package calibrate

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"psim/costmodel/link"
	"psim/schedules/graph"
)

// An ncclTest is a program of nccl-tests whose collective a link can price.
type ncclTest struct {
	name    string
	kind    graph.Kind
	article string // the collective with its article, for messages
	reduces bool   // prints a reduction; other tests print "none"
}

var ncclTests = [...]ncclTest{
	{"all_reduce_perf", graph.AllReduce, "an all-reduce", true},
	{"all_gather_perf", graph.AllGather, "an all-gather", false},
	{"reduce_scatter_perf", graph.ReduceScatter, "a reduce-scatter", true},
}

// readableTests names the tests whose output can be read.
const readableTests = "all_reduce_perf, all_gather_perf or reduce_scatter_perf"

// testNamed finds the test of a program, whose name may have a path and, in builds
// with MPI, a suffix.
func testNamed(program string) (*ncclTest, error) {
	name, _, _ := strings.Cut(path.Base(program), "_perf")
	for i := range ncclTests {
		if ncclTests[i].name == name+"_perf" {
			return &ncclTests[i], nil
		}
	}
	return nil, fmt.Errorf("this is the output of %s, which prices no collective of a link; use that of %s",
		printable(path.Base(program)), readableTests)
}

// printable makes a name from a file safe for a terminal.
func printable(name string) string {
	const longest = 60
	if quoted := strconv.QuoteToASCII(name); len(name) > longest || quoted != `"`+name+`"` {
		return quoted[:min(len(quoted), longest)]
	}
	return name
}

// factor returns busbw / algbw: how many times the whole tensor passes the slowest link.
func (t ncclTest) factor(ranks int) float64 {
	return float64(link.Moves(t.kind)) * float64(ranks-1) / float64(ranks)
}

func (r ncclRow) reduces() bool { return r.redop != "" && r.redop != "none" }

// rooted reports whether one rank is the root, as in a reduce, broadcast, gather
// or scatter. The tests that can be read print -1.
func (r ncclRow) rooted() bool { return r.root != "" && r.root != "-1" && r.root != "N/A" }

func (r ncclRow) rootError() error {
	return fmt.Errorf("root = %s, so this is a reduce, broadcast, gather or scatter, "+
		"which prices no collective of a link; use the output of %s", printable(r.root), readableTests)
}

// checkTest returns an error if a row does not belong to a test. named says that the file
// names the test.
func (r ncclRow) checkTest(t ncclTest, ranks int, named bool) error {
	switch factor := t.factor(ranks); {
	case r.rooted() && named:
		return fmt.Errorf("root = %s, but %s has no root; is the file put together from two?",
			printable(r.root), t.name)
	case r.rooted():
		return r.rootError()
	case r.algbw >= 1 && !r.near(factor):
		return fmt.Errorf("busbw is %.3g times algbw, where %s over %d ranks has %.3g; "+
			"is it another collective, or are ranks missing?", r.busbw/r.algbw, t.article, ranks, factor)
	case named && r.redop != "" && t.reduces != r.reduces():
		return fmt.Errorf("redop = %s, which %s does not print; is the file put together from two?", r.redop, t.name)
	case r.redop != "" && t.reduces != r.reduces():
		return fmt.Errorf("redop = %s, but other rows of the run are of %s; are these two runs?", r.redop, t.article)
	}
	return nil
}

// near reports whether busbw is roughly a factor times algbw.
func (r ncclRow) near(factor float64) bool {
	return math.Abs(r.busbw/r.algbw/factor-1) < quotientTolerance
}

// exactly reports whether busbw may be exactly a factor times algbw, which are printed
// with two decimals. For a small algbw, the size over the time is more precise.
func (r ncclRow) exactly(factor float64) bool {
	const half = 0.005
	if r.algbw < 1 {
		return math.Abs(r.busbw-factor*r.rate()) <= half+0.001*factor*r.rate()
	}
	return math.Abs(r.busbw-factor*r.algbw) <= half+half*factor+0.0001*r.busbw
}

// findTest finds the test of a row from its operation and the factor between its
// bandwidths. Without an operation it cannot be a reduce-scatter: versions that omit the
// operation do so only in tests that do not reduce.
func (r ncclRow) findTest(ranks int) (*ncclTest, error) {
	if r.rooted() {
		return nil, r.rootError()
	}
	var fits []*ncclTest
	var expected []string
	for i, t := range ncclTests {
		if r.redop != "" && t.reduces != r.reduces() || r.redop == "" && t.kind == graph.ReduceScatter {
			continue
		}
		factor := t.factor(ranks)
		expected = append(expected, fmt.Sprintf("%s over %d ranks has %.3g", t.article, ranks, factor))
		if r.exactly(factor) || r.algbw >= 1 && r.near(factor) {
			fits = append(fits, &ncclTests[i])
		}
	}
	// Reduce, broadcast and sendrecv have a factor of 1, and so has an all-reduce over
	// two ranks: a reduction over two ranks with this factor counts as an all-reduce.
	other := r.exactly(1) && !(ranks == 2 && r.reduces())
	switch {
	case len(fits) == 1 && !other:
		return fits[0], nil
	case len(fits) == 0, len(fits) == 1 && !r.exactly(fits[0].factor(ranks)):
		return nil, fmt.Errorf("busbw is %.3g times algbw, where %s; is it another collective, or are ranks missing?",
			r.busbw/r.rate(), strings.Join(expected, " and "))
	}
	return nil, fmt.Errorf("busbw = %.3g is too small or too near to algbw to distinguish %s from other collectives; "+
		"measure larger sizes, or use a version of nccl-tests that prints \"# Collective test starting\"",
		r.busbw, fits[0].article)
}
