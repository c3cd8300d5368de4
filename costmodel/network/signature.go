package network

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Signature identifies what a layer computes. Layers of equal kind, operations, shapes, heads
// and parameters have equal signatures, whatever their names, so that the measured time of one
// of them holds for the others. It is a line of text for people, such as
//
//	gpt block 64x256 to 64x256, 4 heads, 12 operations, parameters 256 256 256x768 …
//
// Files of measurements contain it: if its form changes, old measurements are no longer found.
func (l Layer) Signature() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s to %s", l.Kind, l.Input.text(), l.Output.text())
	if l.Heads > 0 {
		fmt.Fprintf(&b, ", %d heads", l.Heads)
	}
	if l.Dropout > 0 {
		b.WriteString(", dropout") // its rate does not change the time
	}
	if l.Kind == KindChain {
		b.WriteString(", " + l.functions())
	} else {
		fmt.Fprintf(&b, ", %d operations", len(l.Ops))
	}
	parameters := append(l.Params[:len(l.Params):len(l.Params)], l.Tied...)
	if len(parameters) > 0 {
		b.WriteString(", parameters")
	}
	for _, t := range parameters {
		b.WriteString(" " + t.Shape.text())
	}
	if frozen := slices.Concat(l.Frozen, l.FrozenTied); len(frozen) > 0 {
		b.WriteString(", frozen")
		for _, t := range frozen {
			b.WriteString(" " + t.Shape.text())
		}
	}
	return b.String()
}

// functions names the operations of a chain, in order.
func (l Layer) functions() string {
	var names []string
	for _, op := range l.Ops {
		name := op.Class.String()
		if op.Function != NoFunction {
			name = op.Function.String()
		}
		if op.NoInputGradient {
			name += " of the input"
		}
		names = append(names, name)
	}
	if names == nil {
		return "no operation"
	}
	return strings.Join(names, " + ")
}

// text writes a shape as 64x256, and the empty one as 1.
func (s Dims) text() string {
	if len(s) == 0 {
		return "1"
	}
	dims := make([]string, len(s))
	for i, d := range s {
		dims[i] = strconv.Itoa(d)
	}
	return strings.Join(dims, "x")
}

// Distinct lists the first layer of each signature.
func (n Network) Distinct() []Layer {
	var list []Layer
	seen := map[string]bool{}
	for _, l := range n.Layers {
		if s := l.Signature(); !seen[s] {
			seen[s] = true
			list = append(list, l)
		}
	}
	return list
}
