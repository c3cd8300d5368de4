package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/costmodel/models"
	"psim/costmodel/training"
)

// Offers are the values that a stack has, by key; keys that it does not limit are absent.
type Offers map[string][]string

// Has reports whether a value is among them. Who has some sets of modules to recompute has
// the others, since modules are listed freely.
func (o Offers) Has(key, value string) bool {
	list, limited := o[key]
	if !limited || slices.Contains(list, value) {
		return true
	}
	return key == "train.recompute" && modules(value) && slices.ContainsFunc(list, modules)
}

// modules reports whether a recomputation is a list of modules.
func modules(recompute string) bool {
	return recompute != "none" && recompute != "selective" && recompute != "full"
}

// stack finds the stack of the experiment; nil is none.
func (c *Config) stack() *Stack {
	for _, s := range Stacks() {
		if s.Name == c.Train.Stack {
			return &s
		}
	}
	return nil
}

// Offers lists what the stack of the experiment has; nothing is limited where it names none.
func (c *Config) Offers() Offers {
	if s := c.stack(); s != nil {
		return s.Offers()
	}
	return nil
}

// asks holds the value that the experiment has of a key that stacks limit.
type asks struct{ key, value string }

// asked lists what the experiment asks of the program that trains: only what has an effect.
func (c *Config) asked() []asks {
	several := func(n int) string { return strconv.Itoa(max(1, n)) }
	list := []asks{
		{"train.precision", cmp.Or(c.Train.Precision, "fp32")},
		{"train.recompute", cmp.Or(c.Train.Recompute, "none")},
		{"parallel.tensor", several(c.Parallel.Tensor)},
		{"parallel.context", several(c.Parallel.Context)},
		{"parallel.expert", several(c.Parallel.Expert)},
	}
	if c.Schedule.File == "" && c.Schedule.Stages > 1 {
		list = append(list, asks{"schedule.name", c.Schedule.Name})
	}
	if c.Parallel.Data > 1 || c.Parallel.Context > 1 {
		list = append(list, asks{"parallel.zero", strconv.Itoa(c.Parallel.Zero)})
	}
	if c.Parallel.Tensor > 1 {
		list = append(list, asks{"parallel.sequence", strconv.FormatBool(c.Parallel.Sequence)})
	}
	return list
}

// Unoffered lists, as lines of TOML, what the experiment asks for and its stack does not
// offer: what a search that keeps to this stack would not try.
func (c *Config) Unoffered() (settings []string) {
	offered := c.Offers()
	for _, a := range c.asked() {
		if !offered.Has(a.key, a.value) {
			settings = append(settings, a.line())
		}
	}
	return settings
}

// line writes it as TOML.
func (a asks) line() string {
	if strings.HasPrefix(a.key, "parallel.") { // numbers, true and false
		return a.key + " = " + a.value
	}
	return fmt.Sprintf("%s = %q", a.key, a.value)
}

// notInStack warns of what the program that is named cannot do.
func (c *Config) notInStack() []string {
	s := c.stack()
	if s == nil {
		return nil
	}
	lacks := slices.DeleteFunc(c.Unoffered(), func(set string) bool { return slices.Contains(s.Unsearched, set) })
	if len(lacks) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("stack %s has no %s (psim list stacks -v): predicted as if it had", s.Name, strings.Join(lacks, ", no "))}
}

// NothingSelective reports whether selective recomputation is asked for and has nothing to
// repeat, because fused attention keeps no scores: it is the same as none.
func (c *Config) NothingSelective() bool {
	if c.Train.Recompute != "selective" || c.Train.Selective == training.SelectiveOperations {
		return false
	}
	model, err := c.model()
	return err == nil && model.Attention == models.AttentionFlash
}
