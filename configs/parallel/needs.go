package parallel

import "psim/internal/setting"

// withModel returns the With of keys that divide a network.
func withModel() []string { return []string{"[model]"} }

// above1 needs one of some keys to be more than 1. The reason ends the warning if none is.
func above1(reason string, keys ...string) []setting.Need {
	return []setting.Need{{Keys: keys, Above: 1, Reason: reason}}
}

// tensorGroups needs a tensor-parallel group of several devices.
func tensorGroups() []setting.Need { return above1("", "parallel.tensor") }

// dividedSequence needs a tensor-parallel group that divides the sequence.
func dividedSequence() []setting.Need {
	return append(tensorGroups(), setting.Need{Keys: []string{"parallel.sequence"}, OneOf: []string{"true"},
		Reason: "since without sequence every device has the whole input"})
}

// scatteredGradients needs gradients that may be scattered after every microbatch.
func scatteredGradients() []setting.Need {
	return append(severalReplicas(), zeroIn("since other gradients are summed once anyway", "2", "3"))
}

// severalParts needs sequences in several parts.
func severalParts() []setting.Need {
	return above1("since sequences are whole; set parallel.context above 1", "parallel.context")
}

// severalExperts needs experts on several devices.
func severalExperts() []setting.Need {
	return above1("since tokens stay where their experts are", "parallel.expert")
}

// severalReplicas needs several copies of the parameters, for parts of the batch or of sequences.
func severalReplicas() []setting.Need { return above1("", "parallel.data", "parallel.context") }

// otherReplicas needs several copies of the parameters, and warns if there is only one.
func otherReplicas() []setting.Need {
	return above1("since there is no other replica to send parameters to; set parallel.data above 1",
		"parallel.data", "parallel.context")
}

// gradientBuckets needs gradients that are summed in buckets.
func gradientBuckets() []setting.Need {
	return append(severalReplicas(), zeroIn("", "0", "1", "2"))
}

// gatherAfterUpdate needs a gather of the parameters after their update.
func gatherAfterUpdate() []setting.Need {
	return append(severalReplicas(),
		zeroIn("since it is about the gather of parameters after the update of zero = 1 and 2", "1", "2"))
}

// shardedGradients needs gradients that replicas share.
func shardedGradients() []setting.Need {
	return append(severalReplicas(), zeroIn("since without ZeRO gradients are all-reduced anyway", "1", "2", "3"))
}

// shardedStates needs an optimizer, or all that is trained, that replicas share.
func shardedStates() []setting.Need {
	return append(severalReplicas(), zeroIn("since it is about what zero = 1 and 3 divide", "1", "3"))
}

// zeroIn needs one of some ZeRO stages.
func zeroIn(reason string, stages ...string) setting.Need {
	return setting.Need{Keys: []string{"parallel.zero"}, OneOf: stages, Reason: reason}
}
