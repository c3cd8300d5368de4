// Package reports turns traces into what people read: a text Gantt (Gantt),
// tables (WriteTable, WriteResultCSV), pictures (Timeline, Memory, Pareto and
// Scatter, which look as reports/chart has it), trace files for Perfetto
// (WriteChrome), and the files of a run (Result, WriteTraceCSV, WriteMemoryCSV),
// which it also reads back. It does not care whether a trace was predicted or
// measured, so both look the same and go in one picture (CompareTimelines), and
// one can be held against the other (Compare).
//
// Equal input gives equal bytes, pictures included.
package reports
