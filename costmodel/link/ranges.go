package link

import (
	"fmt"
	"math"
	"time"

	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A SizeRange is the measured time of a library's collective over a number of ranks, from a
// number of bytes up to the next range. Ranges differ because libraries change protocol and
// algorithm with the size (NCCL: LL, LL128 and Simple, in rings and trees). Numbers of ranks
// differ because the topology decides how many links their rings find.
type SizeRange struct {
	Ranks int            `toml:"ranks"`
	From  units.Bytes    `toml:"from"` // of the whole tensor
	Call  units.Duration `toml:"call"` // whatever the size
	// Bandwidth is the bus bandwidth as nccl-tests define it: in addition to Call, a tensor of
	// S bytes takes (n−1)/n · S / Bandwidth to gather or to scatter, and twice that to
	// all-reduce. For small tensors, whose time is latency, it may exceed the links' own.
	Bandwidth units.Rate `toml:"bandwidth"`
}

// Settings describes an entry of a link's all_reduce, all_gather or
// reduce_scatter.
func (SizeRange) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "ranks", Required: true, Example: "8", Range: setting.Between(2, math.MaxInt32),
			Text: "of the collective",
		},
		{Key: "from", Default: "0B", Text: "smallest size of the whole tensor"},
		{Key: "call", Default: "0us", Text: "what it takes whatever its size"},
		{
			Key: "bandwidth", Required: true, Example: `"200GB/s"`, Range: setting.Positive(),
			Text: "bus bandwidth, as nccl-tests define it",
		},
	}
}

// A CollectiveTable is the measured times of the collectives of one kind over a link.
type CollectiveTable struct {
	Kind   graph.Kind
	Key    string // in a link's TOML: all_reduce, all_gather or reduce_scatter
	Ranges []SizeRange
}

// Tables lists the tables of the link, one for each kind, with or without ranges.
func (l Link) Tables() []CollectiveTable {
	return []CollectiveTable{
		{graph.AllReduce, "all_reduce", l.AllReduce},
		{graph.AllGather, "all_gather", l.AllGather},
		{graph.ReduceScatter, "reduce_scatter", l.ReduceScatter},
	}
}

// table returns the table of a kind of collective.
func (l *Link) table(k graph.Kind) *[]SizeRange {
	switch k {
	case graph.AllGather:
		return &l.AllGather
	case graph.ReduceScatter:
		return &l.ReduceScatter
	}
	return &l.AllReduce
}

// SetTable replaces the table of a kind of collective.
func (l *Link) SetTable(k graph.Kind, ranges []SizeRange) { *l.table(k) = ranges }

// Moves is the number of times that a collective over n ranks moves (n−1)/n of its tensor.
func Moves(k graph.Kind) int {
	if k == graph.AllReduce {
		return 2
	}
	return 1
}

// Time returns the time of a collective by a range of its own table.
func (r SizeRange) Time(k graph.Kind, bytes int64) time.Duration {
	return units.Sum(time.Duration(r.Call), units.Repeat(Moves(k), r.moving(bytes)))
}

// half returns the time of one of the two halves of an all-reduce by a range of all-reduces: half
// of the steps, but the whole call of the link.
func (r SizeRange) half(call units.Duration, bytes int64) time.Duration {
	once := min(call, r.Call)
	return units.Sum(time.Duration(once+(r.Call-once)/2), r.moving(bytes))
}

// moving returns the time to move (n−1)/n of a tensor.
func (r SizeRange) moving(bytes int64) time.Duration {
	n := float64(r.Ranks)
	return units.Seconds((n - 1) / n * float64(bytes) / float64(r.Bandwidth))
}

// rangesOf returns the ranges of a list for a number of ranks, by size.
func rangesOf(list []SizeRange, ranks int) []SizeRange {
	for i, r := range list {
		if r.Ranks == ranks {
			end := i + 1
			for end < len(list) && list[end].Ranks == ranks {
				end++
			}
			return list[i:end]
		}
	}
	return nil
}

// measured returns the time by the table of the collective's kind, if it has the number of ranks;
// else, for a half of an all-reduce, by the table of all-reduces, unless a switch may have added up.
func (l Link) measured(k graph.Kind, ranks int, bytes int64) (took time.Duration, ok bool) {
	price := func(r SizeRange, bytes int64) time.Duration { return r.Time(k, bytes) }
	ranges := rangesOf(*l.table(k), ranks)
	if ranges == nil && !l.adds() {
		price = func(r SizeRange, bytes int64) time.Duration { return r.half(l.Call, bytes) }
		ranges = rangesOf(l.AllReduce, ranks)
	}
	if ranges == nil {
		return 0, false
	}
	return monotone(ranges, bytes, price), true
}

// monotone returns the time by ranges. Libraries may be slower at the end of a range than at the
// start of the next, because they change protocol too late. Here no size takes longer than a
// larger one.
func monotone(ranges []SizeRange, bytes int64, price func(SizeRange, int64) time.Duration) time.Duration {
	in := 0
	for i, r := range ranges {
		if bytes >= int64(r.From) {
			in = i
		}
	}
	took := price(ranges[in], bytes)
	for _, r := range ranges[in+1:] {
		took = min(took, price(r, int64(r.From)))
	}
	return took
}

// check refuses a table that gives two times for the same ranks and bytes.
func (t CollectiveTable) check() error {
	for i, r := range t.Ranges {
		at := fmt.Sprintf("%s[%d].", t.Key, i)
		switch {
		case rangesOf(t.Ranges[:i], r.Ranks) == nil:
		case t.Ranges[i-1].Ranks != r.Ranks:
			return &setting.Error{Key: at + "ranks", Problem: fmt.Sprintf(
				" = %d: ranges of one number of ranks must stand together", r.Ranks)}
		case t.Ranges[i-1].From >= r.From:
			return &setting.Error{Key: at + "from", Problem: fmt.Sprintf(
				": ranges of %d ranks must be in the order of their sizes, "+
					"each from a larger one than the range before",
				r.Ranks)}
		}
	}
	return nil
}
