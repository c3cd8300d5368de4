package published

import (
	"fmt"
	"strings"

	"psim/results/rankings"
)

// Accuracy returns the error of predictions for a stack on a device in a precision, from the last
// comparison with published runs (testdata/stacks.csv, which a test keeps up to date). Rows is 0 without
// such runs.
func Accuracy(stack, device, precision string) *rankings.StackAccuracy {
	device = deviceIn(device, precision)
	a := &rankings.StackAccuracy{Stack: stack, Device: device}
	for _, r := range records("stacks.csv") {
		if r.text("stack") == stack && r.text("device") == device {
			a.Rows, a.MeanError = int(r.number("rows")), r.number("mean_percent")/100
		}
	}
	return a
}

// stacksCSV writes the errors of stacks.
func (r Report) stacksCSV() string {
	var b strings.Builder
	b.WriteString("# Errors of training runs by stack and device, over the rows that no constant was fitted to: " +
		"go test ./published -run Stacks -update\nstack,device,rows,mean_percent\n")
	for _, g := range r.byStack() {
		fmt.Fprintf(&b, "%s,%s,%d,%.2f\n", g.stack, g.device, len(g.errors), 100*g.mean())
	}
	return b.String()
}
