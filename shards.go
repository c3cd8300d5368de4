package psim

import (
	"errors"

	"psim/exec/data"
	"psim/reports"
)

// Shards tells which samples of the data set every replica trains on: r, r+n, … for
// replica r of n, or shuffled and cut as the partitioner of the CMU course does.
func (p *Prediction) Shards(strided bool) ([]reports.Shard, error) {
	if p.Config.Data.Samples == 0 {
		return nil, errors.New("which samples a replica has follows from how many there are; say it, as in --set data.samples=5000")
	}
	shards, err := data.Deal(int(p.Config.Data.Samples), max(1, p.Plan.Graph.Shape.Replicas), strided)
	return reports.NewShards(shards), err
}
