// Package schedules says what a distributed training step has to do, and in
// which order: as a value, a [Graph] of tasks, that one package simulates and
// another executes.
//
// A task may start when every task it depends on has ended, and when it is at
// the head of its stream: the tasks of one stream run one at a time, in graph
// order, as on a CUDA stream. That is all. A schedule therefore writes order,
// never time; idle time is found by running the graph.
//
// A pipeline schedule is only the compute order of each rank, an [Order]:
//
//	rank 0: 0F0 0F1 0B0 0B1      stage 0: forward of microbatches 0 and 1, …
//	rank 1: 1F0 1B0 1F1 1B1
//
// [Pipeline.Graph] adds the wiring that all of them share: dependencies
// between stages, one message per boundary, microbatch and direction, the
// gradient synchronisation of data-parallel replicas and the optimizer. Ring
// collectives ([Ring]) are graphs of their own.
//
// [Catalog] lists the schedules by name. A new one is a function from a
// [Shape] to an [Order] in a file of its own, and one row of that table. An
// order of one's own ([ReadCSV], [Custom]) is another; [Order.WithMessages] and
// [Order.Hang] tell whether it would hang.
//
// Running a graph gives a [Trace]; [Summarize] computes its metrics, whoever
// ran it.
package schedules
