// Package coursefile reads and writes the result files of the two courses: what train.py
// of Brown's CS1390 saves (stats_ddp4.json), what homework 4 of CMU's 11-868 saves and
// prints (rank0_results_epoch1.json, logs), and the summary of homework 5
// (performance_summary.json). With it a student's own run can be compared and plotted like
// any result of psim.
//
// What a file does not say stays unknown: most say nothing about memory, about the bubble,
// or about what a step is made of.
package coursefile
