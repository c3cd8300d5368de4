// Package schedules lists the ways to order a distributed training step.
//
// A schedule writes order, never time: which forwards and backwards every rank of a
// pipeline runs, one after another.
//
//	rank 0: 0F0 0F1 0B0 0B1      stage 0: forward of microbatches 0 and 1, …
//	rank 1: 1F0 1B0 1F1 1B1
//
// Five packages make a step of it; none knows those after it:
//
//	graph       plain data: tasks, graphs, placements, traces, their summary
//	order       orders, their notation, the rule of what an action needs
//	wiring      order → graph: messages, gradient sums, the optimizer
//	collective  rings, spelled out as graphs of their own
//	schedules   the catalog: a file for each schedule or family, with rows of [Catalog]
//
// A new schedule is a file with a function that returns a [Schedule], and its name
// in the list of Catalog. An order of one's own, from a file, is another row
// ([Custom]). Package partition cuts layers into stages; package search finds
// orders.
package schedules
