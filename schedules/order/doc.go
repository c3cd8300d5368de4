// Package order holds compute orders: which actions every rank of a pipeline
// runs, one after another. An [Order] is written and read in PyTorch's notation,
// validated, given messages ([Order.WithMessages]), and run against itself to
// see whether it would hang ([Order.Hang]). What an action needs is one rule,
// [Action.Needs]. The package knows no times.
package order
