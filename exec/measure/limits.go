package measure

import (
	"fmt"
	"slices"

	"psim/exec/train"
)

// A comparison holds the numbers by which the checks of a run are judged.
type comparison struct {
	train.Differences
	// first has the differences after the first step alone; nil if nothing has failed.
	first     *train.Differences
	checks    []string
	reference string // "" is the unsplit run
	losses    []float64
}

// A limit is the difference from which on a check fails: of gradients as a share, of the others as it is.
type limit struct {
	check   string
	says    string // subject and verb
	unit    string // after the difference
	when    string // preposition, before "step 1"
	of      func(train.Differences) float64
	allowed float64
}

func limits() []limit {
	return []limit{
		{CheckWeights, "weights differ", "", "after", func(d train.Differences) float64 { return d.Weights }, 1e-5},
		{CheckOutput, "the output differs", "", "in", func(d train.Differences) float64 { return d.Outputs }, 1e-4},
		{CheckGradients, "gradients differ", " of their tensor's largest", "in",
			func(d train.Differences) float64 { return d.GradientShare }, 1e-5},
		{CheckLoss, "the loss differs", "", "in", func(d train.Differences) float64 { return d.Loss }, 1e-4},
	}
}

// exceeded lists the limits that the differences reach.
func (c comparison) exceeded() []limit {
	return slices.DeleteFunc(limits(), func(l limit) bool {
		return !slices.Contains(c.checks, l.check) || l.of(c.Differences) < l.allowed
	})
}

// failures lists the checks that fail, and why.
func (c comparison) failures() (list []string) {
	reference := c.reference
	if reference == "" {
		reference = "the unsplit run"
	}
	for _, l := range c.exceeded() {
		list = append(list, fmt.Sprintf("%s by %.3g%s from %s, and %g is allowed%s",
			l.says, l.of(c.Differences), l.unit, reference, l.allowed, c.origin(l)))
	}
	if slices.Contains(c.checks, CheckGradients) && !c.ReplicasEqual {
		list = append(list, "replicas have different gradients")
	}
	if first, last := c.losses[0], c.losses[len(c.losses)-1]; slices.Contains(c.checks, CheckLoss) && !(last < first) {
		list = append(list,
			fmt.Sprintf("the loss went from %.4g to %.4g; a smaller learning rate may help", first, last))
	}
	return list
}

// wrongGradientShare bounds the GradientShare of a first step whose sums are right. Sums of
// float32 in another order leave about 1e-6. A summand that is missing, or counted twice,
// leaves its share of the whole.
const wrongGradientShare = 1e-3

// origin says where a difference comes from. A wrong sum shows in the first step already, while
// rounding is within the limit there and grows.
func (c comparison) origin(l limit) string {
	if c.first == nil {
		return ""
	}
	from, to, steps := l.of(*c.first), l.of(c.Differences), len(c.losses)
	if l.check == CheckOutput {
		steps = min(2, steps) // whose outputs are recorded
	}
	percent := 100 * c.first.GradientShare
	switch {
	case !(c.first.GradientShare < wrongGradientShare):
		return fmt.Sprintf(
			"; in step 1 gradients differ by %.3g %% of their tensor's largest: a wrong sum, not rounding", percent)
	case l.check == CheckGradients || from >= l.allowed:
		return fmt.Sprintf(
			"; it is %.3g %s step 1 already, where gradients differ by %.3g %% of their tensor's largest",
			from, l.when, percent)
	}
	return fmt.Sprintf("; the difference grew from %.3g %s step 1 to %.3g %s step %d: "+
		"rounding amplified by training, not a wrong sum; lower the learning rate or take fewer steps",
		from, l.when, to, l.when, steps)
}
