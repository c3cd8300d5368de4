package calibrate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// ReadNCCLTests reads the output of nccl-tests' all_reduce_perf, all_gather_perf and
// reduce_scatter_perf, or the JSON that their -J writes, and both forms of the output of
// psim exec with such a collective: one run, or several in a row. It takes the
// out-of-place times. Errors begin with the label and, in text, the line.
func ReadNCCLTests(label string, data []byte) ([]CollectiveTiming, error) {
	read := readNCCLText
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		read = readNCCLJSON
	}
	runs, err := read(label, data)
	if err != nil {
		return nil, err
	}
	var list []CollectiveTiming
	for _, r := range runs {
		timings, err := r.timings()
		if err != nil {
			return nil, err
		}
		list = append(list, timings...)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: holds no times; give the output of nccl-tests' %s, "+
			"as text or as its -J writes it, or of psim exec ring-allreduce and the like", label, readableTests)
	}
	return list, nil
}

// An ncclRun holds the measurements of one run of a test.
type ncclRun struct {
	test     *ncclTest // nil if the file does not name it
	ranks    int
	hosts    map[string]bool // of the ranks, as far as the file names them
	rows     []ncclRow
	warnings []string // of the program that measured
}

// nodes counts the hosts; it returns 0 for one host, or if they are unknown.
func (r ncclRun) nodes() int {
	if len(r.hosts) < 2 {
		return 0
	}
	return len(r.hosts)
}

// on adds the host of a rank.
func (r *ncclRun) addHost(host string) {
	if r.hosts == nil {
		r.hosts = map[string]bool{}
	}
	r.hosts[host] = true
}

// An ncclRow is the measurement of one size.
type ncclRow struct {
	at                     string // file and line
	redop                  string // "" if unknown
	root                   string // "" if unknown, -1 if the test has no root
	size, us, algbw, busbw float64
	wrong                  float64 // number of wrong results, 0 if they were not checked
}

// timings checks a run, finds its test, and returns its timings. It skips sizes that are
// too small for the ranks, which nccl-tests print as 0 bytes.
func (r ncclRun) timings() ([]CollectiveTiming, error) {
	for _, row := range r.rows {
		if err := row.check(r.ranks); err != nil {
			return nil, fmt.Errorf("%s: %w", row.at, err)
		}
	}
	rows := slices.DeleteFunc(slices.Clone(r.rows), func(row ncclRow) bool { return row.size == 0 })
	if len(rows) == 0 {
		return nil, nil
	}
	test := r.test
	if test == nil {
		// The largest bandwidth is printed with the most digits.
		most := slices.MaxFunc(rows, func(a, b ncclRow) int { return cmp.Compare(a.rate(), b.rate()) })
		var err error
		if test, err = most.findTest(r.ranks); err != nil {
			return nil, fmt.Errorf("%s: %w", most.at, err)
		}
	}
	var list []CollectiveTiming
	for _, row := range rows {
		if err := row.checkTest(*test, r.ranks, r.test != nil); err != nil {
			return nil, fmt.Errorf("%s: %w", row.at, err)
		}
		list = append(list, CollectiveTiming{
			Kind: test.kind, Ranks: r.ranks, Bytes: int64(row.size), Time: row.time(), Nodes: r.nodes(),
			Guessed: r.test == nil && test.kind == graph.AllGather, Warning: strings.Join(r.warnings, "; "),
		})
	}
	return list, nil
}

// brokenCollective explains why a measurement with wrong results is refused.
const brokenCollective = "the measured collective is broken, so its times mean nothing"

// Tolerances for printed numbers.
const (
	quotientTolerance  = 0.02  // relative, of a quotient of two
	bandwidthTolerance = 0.006 // in GB/s, of a bandwidth with two decimals
)

func (r ncclRow) time() time.Duration { return units.Seconds(r.us / 1e6) }

// rate returns the size over the time in GB/s: algbw before rounding.
func (r ncclRow) rate() float64 { return r.size / (r.us * 1e3) }

// check refuses values that no measurement has.
func (r ncclRow) check(ranks int) error {
	switch took := r.time(); {
	case ranks < 2:
		return errors.New("one rank has nothing to exchange with; measure over 2 or more")
	case ranks > math.MaxInt32:
		return fmt.Errorf("%d ranks are more than a configuration can have", ranks)
	case !(r.size >= 0) || r.size > math.MaxInt64/2 || r.size != math.Trunc(r.size):
		return fmt.Errorf("size = %v: must be a number of bytes", r.size)
	case !(r.us > 0) || took <= 0 || took >= units.Longest:
		return fmt.Errorf("time = %v: must be a number of microseconds above 0", r.us)
	case !(r.wrong >= 0):
		return fmt.Errorf("#wrong = %v: must be a number of results, or N/A", r.wrong)
	case r.wrong > 0:
		return fmt.Errorf("%v wrong results: %s; measure again until there are 0", r.wrong, brokenCollective)
	case !(r.algbw >= 0) || !(math.Abs(r.rate()-r.algbw) <= bandwidthTolerance+quotientTolerance*r.algbw):
		return fmt.Errorf("size = %v in time = %v microseconds are %.3g GB/s, where algbw is %.3g; "+
			"is the time in another unit?", r.size, r.us, r.rate(), r.algbw)
	}
	return nil
}
