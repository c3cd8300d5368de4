// Package coursefile reads and writes the result files of the two courses: those of train.py
// of Brown's CS1390 (stats_ddp4.json), the files and logs of homework 4 of CMU's 11-868
// (rank0_results_epoch1.json), and the summary of homework 5 (performance_summary.json). With
// it a student's own run can be compared and plotted like any result of psim.
//
// Numbers that a file lacks stay unknown: most files say nothing about memory, the bubble, or
// the parts of a step.
package coursefile
