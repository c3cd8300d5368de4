// Package graph is the plain data that all of psim shares: a [Task], the
// [Graph] of one training step, the [Placement] of its stages, the [Costs] that a
// simulation takes, the [Trace] that a run leaves, and its [Summary]. It imports
// nothing of psim.
//
// A task may start when every task it depends on has ended, and when it is at
// the head of its stream: the tasks of one stream run one at a time, in graph
// order, as on a CUDA stream.
package graph
