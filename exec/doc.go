// Package exec runs a task graph for real: the same graph that package sim
// predicts, with the same rules. [Measure] does all of it in one call: it opens
// devices, measures every task alone, trains some steps, and compares what was
// trained with an unsplit run. [Run] is the part that knows about graphs and nothing
// about what tasks do: one goroutine per stream takes its tasks in order, each after
// what it depends on, and the spans it records are a trace like the simulator's.
//
// This package sees no prediction; package session joins the two.
package exec
