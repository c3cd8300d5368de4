// Package cores keeps goroutines on cores of the machine, and from being interrupted there,
// where the system can.
package cores
