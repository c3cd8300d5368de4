// Package collective spells ring collectives out as task graphs, chunk by chunk. A
// collective is a row of [Collectives]; graphs ([Ring.Graph]), lists, error messages
// and estimates of size follow from it.
package collective
