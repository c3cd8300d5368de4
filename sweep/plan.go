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

// maxPoints limits a sweep, whose results are all in memory.
const maxPoints = 20_000

// plan lists the points of the shard, once their values are known to be possible.
func (s *sweep) plan() error {
	if err := checkVary(s.options.Vary); err != nil {
		return err
	}
	if err := s.options.Shard.Check(); err != nil {
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

// checkVary refuses variations that make no sweep.
func checkVary(vary []rankings.Variation) error {
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
	if count > maxPoints {
		return fmt.Errorf("%s = %.0f points are more than the %d of a sweep; vary less, or in several sweeps", strings.Join(sizes, " × "), count, maxPoints)
	}
	return nil
}

// combinationAt makes the settings of a point. The first key changes last.
func combinationAt(vary []rankings.Variation, index int) []string {
	set := make([]string, len(vary))
	for i := len(vary) - 1; i >= 0; i-- {
		n := len(vary[i].Values)
		set[i] = vary[i].Key + "=" + vary[i].Values[index%n]
		index /= n
	}
	return set
}

// bytesPerRank bounds what a rank of a result takes: its numbers, their JSON, and what
// writing it takes, measured on results of 8192 ranks and rounded up.
const bytesPerRank = 2000

// checkSize refuses results that would not fit into memory together.
func (s *sweep) checkSize() error {
	var ranks float64
	for _, p := range s.todo {
		ranks += p.config.Ranks()
	}
	if need, free := int64(ranks*bytesPerRank), ram.Free(); need > free {
		if s.journal != nil {
			s.journal.leave()
		}
		return fmt.Errorf("the results of %s have %.3g ranks together and need about %s of memory, of which %s are free here; vary less, or compute the points in shards",
			units.Plural(len(s.todo), "point"), ranks, units.FormatBytes(need), units.FormatBytes(free))
	}
	return nil
}
