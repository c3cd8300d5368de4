package results

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
