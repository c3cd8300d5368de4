// Package wiring turns a compute order into a task graph: [Pipeline.Graph] adds
// dependencies between stages, one message per boundary, microbatch and
// direction, the gradient sums of data-parallel replicas, and the optimizer.
// The same wiring serves every schedule.
package wiring
