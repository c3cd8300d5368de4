package exec

import (
	"fmt"
	"slices"
)

// A comparison is what a run's checks are judged by.
type comparison struct {
	Differences
	// first has those after the first step alone; nil where nothing has failed.
	first     *Differences
	checks    []string
	reference string // "" is the unsplit run
	losses    []float64
}

// A limit is the largest absolute difference with which a check passes.
type limit struct {
	check   string
	says    string // subject and verb
	when    string // preposition, before "step 1"
	of      func(Differences) float64
	allowed float64
}

func limits() []limit {
	return []limit{
		{CheckWeights, "weights differ", "after", func(d Differences) float64 { return d.Weights }, 1e-5},
		{CheckOutput, "the output differs", "in", func(d Differences) float64 { return d.Outputs }, 1e-4},
		{CheckGradients, "gradients differ", "in", func(d Differences) float64 { return d.Gradients }, 1e-5},
		{CheckLoss, "the loss differs", "in", func(d Differences) float64 { return d.Loss }, 1e-4},
	}
}

// exceeded lists the limits of the checks that the differences reach.
func (c comparison) exceeded() []limit {
	return slices.DeleteFunc(limits(), func(l limit) bool {
		return !slices.Contains(c.checks, l.check) || l.of(c.Differences) < l.allowed
	})
}

// failures lists which of the checks fail, and why.
func (c comparison) failures() (list []string) {
	reference := c.reference
	if reference == "" {
		reference = "the unsplit run"
	}
	for _, l := range c.exceeded() {
		list = append(list, fmt.Sprintf("%s by %.3g from %s, and %g is allowed%s", l.says, l.of(c.Differences), reference, l.allowed, c.origin(l)))
	}
	if slices.Contains(c.checks, CheckGradients) && !c.ReplicasEqual {
		list = append(list, "replicas have different gradients")
	}
	if first, last := c.losses[0], c.losses[len(c.losses)-1]; slices.Contains(c.checks, CheckLoss) && !(last < first) {
		list = append(list, fmt.Sprintf("the loss went from %.4g to %.4g; a smaller learning rate may help", first, last))
	}
	return list
}

// wrongShare bounds the GradientShare of a first step whose sums are right.
// Sums of float32 in another order leave some 1e-6, a summand that is missing or
// counted twice its share of the whole.
const wrongShare = 1e-3

// origin says where a difference comes from: a wrong sum is there in the first step,
// while rounding is within the limit there and grows.
func (c comparison) origin(l limit) string {
	if c.first == nil {
		return ""
	}
	from, to, steps := l.of(*c.first), l.of(c.Differences), len(c.losses)
	switch {
	case !(c.first.GradientShare < wrongShare):
		return fmt.Sprintf("; in step 1 gradients differ by %.3g %% of their tensor's largest: a wrong sum, not rounding", 100*c.first.GradientShare)
	case l.check == CheckGradients || from >= l.allowed:
		return fmt.Sprintf("; it is %.3g %s step 1 already, where gradients differ by %.3g %% of their tensor's largest", from, l.when, 100*c.first.GradientShare)
	}
	return fmt.Sprintf("; the difference grew from %.3g %s step 1 to %.3g %s step %d: rounding amplified by training, not a wrong sum; lower the learning rate or take fewer steps",
		from, l.when, to, l.when, steps)
}
