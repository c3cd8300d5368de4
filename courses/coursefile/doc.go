// Package coursefile reads and writes the result files of the courses that psim
// predicts: what train.py of Brown's CS1390 saves (stats_ddp4.json), and of CMU's
// 11-868 what homework 4 saves and prints (rank0_results_epoch1.json, logs) and what
// homework 5 sums up (performance_summary.json). So a student's own run is compared,
// plotted and laid over a prediction like any result.
//
// What a file does not say stays unknown: most say nothing of memory, of the bubble,
// or of what a step is made of.
package coursefile
