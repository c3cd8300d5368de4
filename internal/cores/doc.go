// Package cores keeps goroutines on cores of the machine, where the system can.
package cores
