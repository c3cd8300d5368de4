// Package calibrate turns measurements into what package costmodel prices with:
// timings of layers into the rates of a roofline, transfers into the rate of a
// copy, and the output of nccl-tests into links with tables of collectives.
package calibrate
