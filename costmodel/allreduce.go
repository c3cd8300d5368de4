package costmodel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"psim/internal/nearest"
	"psim/internal/units"
	"psim/schedules"
)

// An AllReduceRange is how long a library's all-reduce over a number of ranks
// takes, as measured, from a number of bytes on to the next range. Ranges differ
// because libraries change protocol and algorithm with the size (NCCL: LL, LL128
// and Simple, in rings and trees), and numbers of ranks because the topology
// decides how many links their rings find.
type AllReduceRange struct {
	Ranks int            `toml:"ranks"`
	From  units.Bytes    `toml:"from"`
	Call  units.Duration `toml:"call"` // what it takes whatever its size
	// Bandwidth is the bus bandwidth: S bytes take 2(n−1)/n · S over it beside
	// Call. Where latency decides, it is above what the links carry.
	Bandwidth units.Rate `toml:"bandwidth"`
}

// at is what a collective of S bytes takes by the range; call is the link's own,
// which half of an all-reduce pays in full.
func (r AllReduceRange) at(k schedules.Kind, call units.Duration, bytes int64) time.Duration {
	n := float64(r.Ranks)
	moving := seconds((n - 1) / n * float64(bytes) / float64(r.Bandwidth))
	if k == schedules.AllReduce {
		return total(time.Duration(r.Call), moving, moving)
	}
	once := min(call, r.Call)
	return total(time.Duration(once+(r.Call-once)/2), moving)
}

// ranges are those of the table for a number of ranks, by size.
func (l Link) ranges(ranks int) []AllReduceRange {
	for i, r := range l.AllReduce {
		if r.Ranks == ranks {
			end := i + 1
			for end < len(l.AllReduce) && l.AllReduce[end].Ranks == ranks {
				end++
			}
			return l.AllReduce[i:end]
		}
	}
	return nil
}

// measured is the time by ranges. At the end of a range libraries are at times
// slower than at the beginning of the next, because they change late; here no
// size takes longer than a larger one.
func measured(k schedules.Kind, call units.Duration, ranges []AllReduceRange, bytes int64) time.Duration {
	in := 0
	for i, r := range ranges {
		if bytes >= int64(r.From) {
			in = i
		}
	}
	took := ranges[in].at(k, call, bytes)
	for _, r := range ranges[in+1:] {
		took = min(took, r.at(k, call, int64(r.From)))
	}
	return took
}

// checkRanges refuses a table that is no function of ranks and bytes.
func checkRanges(list []AllReduceRange) error {
	for i, r := range list {
		at := fmt.Sprintf("[%d].", i)
		switch {
		case r.Ranks < 2:
			return fmt.Errorf("%sranks = %d: an all-reduce has at least 2", at, r.Ranks)
		case r.Bandwidth <= 0:
			return errors.New(at + `bandwidth is missing or zero; write for example bandwidth = "200GB/s"`)
		}
		switch of := (Link{AllReduce: list[:i]}).ranges(r.Ranks); {
		case of == nil:
		case list[i-1].Ranks != r.Ranks:
			return fmt.Errorf("%sranks = %d: ranges of one number of ranks must stand together", at, r.Ranks)
		case list[i-1].From >= r.From:
			return fmt.Errorf("%sfrom: ranges of %d ranks must be in the order of their sizes, each from a larger one than the range before", at, r.Ranks)
		}
	}
	return nil
}

// readRanges reads the value of all_reduce: a list of tables.
func readRanges(value any) ([]AllReduceRange, error) {
	var tables []map[string]any
	switch v := value.(type) {
	case []map[string]any:
		tables = v
	case []any:
		for _, entry := range v {
			table, ok := entry.(map[string]any)
			if !ok {
				return nil, errors.New("is a list of tables")
			}
			tables = append(tables, table)
		}
	default:
		return nil, errors.New(`is a list of tables; write for example [{ranks = 8, from = "0B", call = "70us", bandwidth = "220GB/s"}]`)
	}
	var list []AllReduceRange
	for i, table := range tables {
		r, err := readRange(table)
		if err != nil {
			return nil, fmt.Errorf("[%d].%w", i, err)
		}
		list = append(list, r)
	}
	return list, checkRanges(list)
}

func readRange(table map[string]any) (r AllReduceRange, err error) {
	parse := map[string]func(any) error{
		"ranks": func(v any) error {
			n, ok := v.(int64)
			if r.Ranks = int(n); !ok || n != int64(r.Ranks) {
				return fmt.Errorf("%v is no number of ranks", v)
			}
			return nil
		},
		"from":      func(v any) error { return r.From.UnmarshalText(fmt.Append(nil, v)) },
		"call":      func(v any) error { return r.Call.UnmarshalText(fmt.Append(nil, v)) },
		"bandwidth": func(v any) error { return r.Bandwidth.UnmarshalText(fmt.Append(nil, v)) },
	}
	legal := []string{"ranks", "from", "call", "bandwidth"}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		set, ok := parse[key]
		if !ok {
			return r, fmt.Errorf("%s: is no key of a range%s (legal are %s)", key, nearest.Suggest(key, legal), strings.Join(legal, ", "))
		}
		if err := set(table[key]); err != nil {
			return r, fmt.Errorf("%s: %w", key, err)
		}
	}
	return r, nil
}
