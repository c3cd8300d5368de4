package group

// Routing is how the layers of a network choose experts; the zero value is a network
// without them.
type Routing struct {
	Experts, PerToken int
	// Groups and GroupsPerToken limit a token to the experts of some groups, which are of
	// equal size (DeepSeek-AI 2024, section 2.1.2); 1 where there is no limit.
	Groups, GroupsPerToken int
	// Imbalance is what the busiest device of an expert group has to do over the mean.
	Imbalance float64
	Capacity  float64 // of every expert in rows, over the mean; 0 is none
}

// Reached is how many of so many equal parts of the experts, devices or nodes, a
// token goes to on average, where all choices are equally likely.
func (r Routing) Reached(parts int) float64 {
	groups := max(1, r.Groups/parts) // of a part, which is in one, or is several
	each := float64(r.Experts) / float64(parts) / float64(groups)
	choice := float64(r.Experts) * float64(r.GroupsPerToken) / float64(r.Groups)
	missed := 0.0
	for chosen := range min(groups, r.GroupsPerToken) + 1 {
		likely := binomial(groups, chosen) * binomial(r.Groups-groups, r.GroupsPerToken-chosen) / binomial(r.Groups, r.GroupsPerToken)
		for i := range r.PerToken {
			likely *= max(0, choice-each*float64(chosen)-float64(i)) / (choice - float64(i))
		}
		missed += likely
	}
	return float64(parts) * (1 - missed)
}

// binomial returns how many choices of k among n there are.
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
