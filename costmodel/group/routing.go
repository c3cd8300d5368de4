package group

// Routing is how the layers of a network choose experts. The zero value stands for a network
// without experts.
type Routing struct {
	Experts, PerToken int
	// Groups and GroupsPerToken limit a token to the experts of some groups. All groups have
	// the same size (DeepSeek-AI 2024, section 2.1.2). Both are 1 without a limit.
	Groups, GroupsPerToken int
	// Imbalance is the work of the busiest device of an expert group over the mean.
	Imbalance float64
	// Capacity is the number of rows that each expert takes over the mean; 0 sets no limit.
	Capacity float64
}

// Reached is the number of parts (devices or nodes) that a token goes to on average, where
// the experts are divided into equal parts and all choices are equally likely.
func (r Routing) Reached(parts int) float64 {
	groups := max(1, r.Groups/parts) // in a part; a part smaller than a group lies in one
	each := float64(r.Experts) / float64(parts) / float64(groups)
	choice := float64(r.Experts) * float64(r.GroupsPerToken) / float64(r.Groups)
	missed := 0.0
	for chosen := range min(groups, r.GroupsPerToken) + 1 {
		likely := binomial(groups, chosen) * binomial(r.Groups-groups, r.GroupsPerToken-chosen)
		likely /= binomial(r.Groups, r.GroupsPerToken)
		for i := range r.PerToken {
			likely *= max(0, choice-each*float64(chosen)-float64(i)) / (choice - float64(i))
		}
		missed += likely
	}
	return float64(parts) * (1 - missed)
}

// binomial returns the number of ways to choose k of n.
func binomial(n, k int) float64 {
	if k > n {
		return 0
	}
	choices := 1.0
	for i := range k {
		choices *= float64(n-i) / float64(i+1)
	}
	return choices
}
