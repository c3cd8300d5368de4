package reports

import (
	"fmt"
	"io"
	"strings"

	"psim/internal/units"
)

// A Shard is the samples that one replica trains on.
type Shard struct {
	Replica int   `json:"replica"` // from 0
	Samples []int `json:"samples"` // numbers of the samples, from 0, in the order of training
}

// NewShards numbers the shards of replicas.
func NewShards(shards [][]int) (list []Shard) {
	for replica, samples := range shards {
		list = append(list, Shard{replica, samples})
	}
	return list
}

// WriteShards prints how many samples every replica has, and the first of them.
func WriteShards(w io.Writer, shards []Shard) error {
	const most = 12
	out := newPage(w)
	for _, s := range shards {
		which := strings.Trim(fmt.Sprint(s.Samples[:min(most, len(s.Samples))]), "[]")
		if len(s.Samples) > most {
			which += " …"
		}
		out.print("  replica %d trains on %s samples: %s\n", s.Replica, units.FormatCount(int64(len(s.Samples))), which)
	}
	return out.Flush()
}

// WriteShardsCSV writes a row per sample.
func WriteShardsCSV(w io.Writer, shards []Shard) error {
	out := newPage(w)
	out.print("replica,sample\n")
	for _, s := range shards {
		for _, sample := range s.Samples {
			out.print("%d,%d\n", s.Replica, sample)
		}
	}
	return out.Flush()
}
