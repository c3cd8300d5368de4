// Package search finds compute orders: for one stage per rank and a backward
// that is split into input and weight gradient, the order of F, I and W on
// every rank whose longest span is shortest, under a limit on memory. A rank's
// span is from its own first start to its own last end, as the zero-bubble
// papers count (Qi et al. 2023, "Zero Bubble Pipeline Parallelism").
//
// A [Problem] may also be folded: two stages on every rank, in a V. Orders are then
// sought among those that repeat a building block (Qi et al. 2024, "Pipeline
// Parallelism with Controllable Memory").
//
// [Find] is fast and heuristic; it also returns a lower bound, so that one sees
// how far from the best its order can be. [Exact] proves the best order of small
// problems with an installed solver.
//
// Microbatches of a stage run in order in every kind of pass. Where they are all
// alike nothing is lost by that: two that run out of order can trade their
// names. An order is then a sequence of F, I and W of a rank's stages, in which no
// operation is ahead of the one before it, and a change of an order is the move of
// one operation.
package search
