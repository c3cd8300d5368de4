package group

// The ways in which parts attend to each other, legal values of Group.Method.
const (
	// ContextRing passes keys and values round, beside attention to those that are there
	// (Liu et al. 2023, Ring Attention; Transformer Engine's p2p).
	ContextRing = "ring"
	// ContextGather gathers all keys and values first (Llama Team 2024, section 3.3.2).
	ContextGather = "all-gather"
	// ContextUlysses exchanges parts of sequences for whole ones of some of the heads
	// (Jacobs et al. 2023, DeepSpeed Ulysses; Transformer Engine's a2a).
	ContextUlysses = "ulysses"
)
