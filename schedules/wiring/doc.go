// Package wiring turns a compute order into a task graph: [Pipeline.Graph] adds
// dependencies between stages, one message per boundary, microbatch and
// direction, the gradient sums of data-parallel replicas, and the optimizer.
// The same wiring serves every schedule.
//
// It goes in passes, each in a file of its own: check; arrange the order around a
// last stage that takes all microbatches at once (wholelast.go); find whose turn
// serial backwards wait for (turns.go) and the clock cycles of barriers
// (barrier.go); add the tasks of every rank with their messages (builder.go),
// gradient sums and gathers (gradients.go); and add what each waits for
// (connect.go, pair.go). Only the last two see tasks.
package wiring
