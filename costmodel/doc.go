// Package costmodel says what the tasks of a graph cost: how long they take
// and how they change the memory in use.
//
// There are three sources of costs, all giving a [graph.Costs]:
//
//   - [Times], explicit durations, which need neither a network nor a machine;
//   - [Workload.Costs], a network of package arch trained on a [Machine];
//   - [RingCosts], the links of a machine alone, for spelled-out collectives.
//
// A compute task takes the sum over its operations of a launch cost and the
// longer of computing and moving memory (a roofline) at achievable rates; a layer
// that was [Measured] on the device takes what it took. A
// message takes latency plus bytes over bandwidth, and queues for its link. A
// fused collective takes what was measured on its link, or else the closed form of
// an algorithm.
//
// A rank stands for the devices of one tensor-parallel group, which do all the
// same: memory, FLOPs and bytes are those of one of them, and what they exchange
// is part of a task's time (see [graph.Inner]).
package costmodel
