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

// ReadNCCLTests reads what nccl-tests' all_reduce_perf, all_gather_perf and
// reduce_scatter_perf have printed, or the JSON that their -J writes, and both of what psim
// exec prints of such a collective: one run or several, one after the other. Times are those
// out of place. Errors begin with the label and, in text, the line.
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
		return nil, fmt.Errorf("%s: holds no times; give the output of nccl-tests' %s, as text or as its -J writes it, or of psim exec ring-allreduce and its like", label, ncclNames)
	}
	return list, nil
}

// An ncclRun is what one start of a test has measured.
type ncclRun struct {
	test  *ncclTest // nil where it is not named
	ranks int
	hosts map[string]bool // of the ranks, as far as they are told
	rows  []ncclRow
	// doubts are warnings of whoever has measured.
	doubts []string
}

// nodes counts the hosts; 0 if there is one, or they are not told.
func (r ncclRun) nodes() int {
	if len(r.hosts) < 2 {
		return 0
	}
	return len(r.hosts)
}

// on adds the host of a rank.
func (r *ncclRun) on(host string) {
	if r.hosts == nil {
		r.hosts = map[string]bool{}
	}
	r.hosts[host] = true
}

// An ncclRow is one size of it.
type ncclRow struct {
	at                     string // file and line
	redop                  string // "" where it is not told
	root                   string // "" where it is not told, -1 where the test has none
	size, us, algbw, busbw float64
	wrong                  float64 // results, 0 where they were not checked
}

// timings checks a run, and finds out what it has measured. nccl-tests print sizes
// that are too small for the ranks as 0 bytes.
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
		// Of the largest bandwidth the most digits are printed.
		most := slices.MaxFunc(rows, func(a, b ncclRow) int { return cmp.Compare(a.rate(), b.rate()) })
		var err error
		if test, err = most.test(r.ranks); err != nil {
			return nil, fmt.Errorf("%s: %w", most.at, err)
		}
	}
	var list []CollectiveTiming
	for _, row := range rows {
		if err := row.checkTest(*test, r.ranks, r.test != nil); err != nil {
			return nil, fmt.Errorf("%s: %w", row.at, err)
		}
		list = append(list, CollectiveTiming{
			Kind: test.kind, Ranks: r.ranks, Bytes: int64(row.size), Time: row.took(), Nodes: r.nodes(),
			Guessed: r.test == nil && test.kind == graph.AllGather, Doubt: strings.Join(r.doubts, "; "),
		})
	}
	return list, nil
}

// digits says how far off a quotient of printed numbers may be, and lastDigit how far
// off a bandwidth itself, of which two decimals are printed.
const (
	digits    = 0.02
	lastDigit = 0.006
)

func (r ncclRow) took() time.Duration { return units.Seconds(r.us / 1e6) }

// rate returns the size over the time in GB/s, which algbw is when rounded.
func (r ncclRow) rate() float64 { return r.size / (r.us * 1e3) }

// check refuses what no measurement has.
func (r ncclRow) check(ranks int) error {
	switch took := r.took(); {
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
		return fmt.Errorf("%v wrong results: the measurement is of a broken collective, whose times mean nothing; measure again until there are 0", r.wrong)
	case !(r.algbw >= 0) || !(math.Abs(r.rate()-r.algbw) <= lastDigit+digits*r.algbw):
		return fmt.Errorf("size = %v in time = %v microseconds are %.3g GB/s, where algbw is %.3g; is the time in another unit?", r.size, r.us, r.rate(), r.algbw)
	}
	return nil
}
