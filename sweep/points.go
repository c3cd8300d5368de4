package sweep

import (
	"errors"
	"fmt"
	"strings"

	"psim/configs"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/results/rankings"
)

// maxPoints limits a sweep, or a shard of one, whose results are all in memory.
const maxPoints = 20_000

// listPoints checks the values to vary, and lists the points of the shard.
func (s *sweep) listPoints() error {
	if err := s.options.check(); err != nil {
		return err
	}
	count := 1
	for _, v := range s.options.Vary {
		count *= len(v.Values)
	}
	s.SweepInfo = rankings.SweepInfo{
		Schema: 1, Name: s.config.Name(), Configuration: s.config.Fingerprint(), Version: s.options.Version,
		Vary: s.options.Vary, Count: count, Shard: s.options.Shard.String(),
	}
	for i := range count {
		if s.options.Shard.Has(i) {
			s.Points = append(s.Points, rankings.SweepPoint{Index: i, Set: combinationAt(s.Vary, i)})
		}
	}
	return nil
}

// check refuses a wrong shard, and variations without values, with impossible values, or with too many combinations.
func (o Options) check() error {
	vary := o.Vary
	if len(vary) == 0 {
		return errors.New("a sweep varies at least one setting")
	}
	count, sizes := 1.0, []string{}
	if err := rankings.OnceEach(vary); err != nil {
		return err
	}
	for _, v := range vary {
		if len(v.Values) == 0 {
			return fmt.Errorf("%s has no values", v.Key)
		}
		for _, value := range v.Values {
			if err := configs.CheckSet(v.Key + "=" + value); err != nil {
				return err
			}
		}
		count *= float64(len(v.Values))
		sizes = append(sizes, fmt.Sprint(len(v.Values)))
	}
	product := strings.Join(sizes, " × ")
	switch shards := max(1, o.Shard.Of); {
	case count > mostMerged:
		return fmt.Errorf("%s = %.0f points are more than the %d of a sweep; vary less, or in several sweeps",
			product, count, mostMerged)
	case count > maxPoints*float64(shards) && shards == 1:
		return fmt.Errorf("%s = %.0f points are more than the %d of a sweep; vary less, or in several sweeps "+
			"or shards", product, count, maxPoints)
	case count > maxPoints*float64(shards):
		return fmt.Errorf("%s = %.0f points are more than the %d of each of %s; vary less, or take more shards",
			product, count, maxPoints, units.Plural(shards, "shard"))
	}
	return o.Shard.Check()
}

// combinationAt returns the settings of a point. The first key changes last.
func combinationAt(vary []rankings.Variation, index int) []string {
	set := make([]string, len(vary))
	for i := len(vary) - 1; i >= 0; i-- {
		n := len(vary[i].Values)
		set[i] = vary[i].Key + "=" + vary[i].Values[index%n]
		index /= n
	}
	return set
}

// bytesPerRank bounds the memory of a rank of a result: its numbers, their JSON, and the
// buffers for writing it, measured on results of 8192 ranks and rounded up.
const bytesPerRank = 2000

// checkSize refuses sweeps whose results would not fit in memory together.
func (s *sweep) checkSize() error {
	var ranks float64
	for _, p := range s.todo {
		ranks += p.config.Ranks()
	}
	if need, free := int64(ranks*bytesPerRank), ram.Free(); need > free {
		if s.journal != nil {
			s.journal.closeForLater()
		}
		return fmt.Errorf("the results of %s have %.3g ranks together and need about %s of memory, "+
			"but only %s are free here; vary less, or compute the points in shards",
			units.Plural(len(s.todo), "point"), ranks, units.FormatBytes(need), units.FormatBytes(free))
	}
	return nil
}
