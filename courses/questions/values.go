package questions

import (
	"fmt"
	"go/constant"
	"maps"
	"strings"
)

// values gives a number to each symbol. It is a map, because the assignment uses the
// same letters for different things: P counts parameters in one part and
// partitions in another.
type values map[string]int64

// with returns the values with some of them changed.
func (v values) with(changes values) values {
	merged := maps.Clone(v)
	maps.Copy(merged, changes)
	return merged
}

// lookup finds the value of a symbol in a formula.
func (v values) lookup(name string) constant.Value {
	if n, ok := v[name]; ok {
		return constant.MakeInt64(n)
	}
	return nil
}

// parseValues reads changes such as "K=1 S=64". A number may be a formula of the values
// that are known: "L=2*P".
func parseValues(text string, known values) values {
	v := values{}
	for _, word := range strings.Fields(text) {
		name, formula, _ := strings.Cut(word, "=")
		v[name] = whole(formula, known.lookup)
	}
	return v
}

// fill replaces {NAME} in a text by the value of the name.
func (v values) fill(text string) string {
	for name, n := range v {
		text = strings.ReplaceAll(text, "{"+name+"}", number(n))
	}
	return text
}

// A grid stands for many changes of the sample. Answers only say how many there are.
type grid struct {
	Name string
	Axes [][]string // changes, as in a question's cases
}

// points lists one change of every axis in all combinations.
func (g grid) points() []values {
	list := []values{{}}
	for _, axis := range g.Axes {
		var longer []values
		for _, v := range list {
			for _, change := range axis {
				longer = append(longer, v.with(parseValues(change, v)))
			}
		}
		list = longer
	}
	return list
}

// A need is a condition on the values of several symbols, and what to say where it does
// not hold.
type need struct {
	Holds, Text string
}

// refuse says what is wrong with values that are each within range.
func (q question) refuse(v values) error {
	for _, n := range q.Needs {
		if !holds(n.Holds, v.lookup) {
			return fmt.Errorf("%s", v.fill(folded(n.Text)))
		}
	}
	return nil
}
