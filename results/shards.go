package results

// ReplicaSamples lists the samples that one replica trains on.
type ReplicaSamples struct {
	Replica int   `json:"replica"` // number of the replica, from 0
	Samples []int `json:"samples"` // numbers of the samples, from 0, in the order of training
}

// NewReplicaSamples makes a list of the samples of all replicas.
func NewReplicaSamples(shards [][]int) (list []ReplicaSamples) {
	for replica, samples := range shards {
		list = append(list, ReplicaSamples{replica, samples})
	}
	return list
}
