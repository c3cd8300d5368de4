package published

import (
	"fmt"
	"strings"

	"psim/results/rankings"
)

// Accuracy returns the error of predictions for a stack on a device in a precision, of mixtures of
// experts or of dense networks, from the last comparison with published runs (testdata/stacks.csv, which
// a test keeps up to date). Rows is 0 without such runs: those of another precision, or of the other
// kind of network, say little.
func Accuracy(stack, device, precision string, mixture bool) *rankings.StackAccuracy {
	a := &rankings.StackAccuracy{Stack: stack, Device: device, Precision: precision, Mixture: mixture}
	for _, r := range records("stacks.csv") {
		of := rankings.StackAccuracy{
			Stack: r.text("stack"), Device: r.text("device"), Precision: r.text("precision"),
			Mixture: r.text("network") == mixtures,
		}
		if of == *a {
			a.Rows, a.MeanError = int(r.number("rows")), r.number("mean_percent")/100
			return a
		}
	}
	return a
}

// The kinds of networks in stacks.csv.
const (
	mixtures = "mixture"
	dense    = "dense"
)

// stacksCSV writes the errors of stacks on devices, by precision and kind of network.
func (r Report) stacksCSV() string {
	var b strings.Builder
	b.WriteString("# Errors of training runs by stack, device, precision and kind of network, over the rows that no " +
		"constant was fitted to: go test ./published -run Stacks -update\n" +
		"stack,device,precision,network,rows,mean_percent\n")
	groups := r.runsBy(func(row DataPoint) stackError {
		return stackError{
			stack: row.Stack, device: strings.TrimSuffix(row.Device, " in "+row.Precision),
			precision: row.Precision, mixture: row.Mixture,
		}
	})
	for _, g := range groups {
		network := dense
		if g.mixture {
			network = mixtures
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,%d,%.2f\n",
			g.stack, g.device, g.precision, network, len(g.errors), 100*g.mean())
	}
	return b.String()
}
