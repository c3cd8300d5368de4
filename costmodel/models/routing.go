package models

import (
	"fmt"

	"psim/costmodel/group"
)

// routing says how the layers of a model choose experts.
func (m Model) routing() group.Routing {
	return group.Routing{
		Experts: m.Experts, PerToken: m.ExpertsPerToken, Imbalance: m.Imbalance, Capacity: m.Capacity,
		Groups: m.ExpertGroups, GroupsPerToken: m.GroupsPerToken,
	}
}

// checkRouting requires the groups of experts to fit the experts.
func (m Model) checkRouting() error {
	switch groups := m.ExpertGroups; {
	case m.ExpertsPerToken > m.Experts:
		return fmt.Errorf("experts_per_token = %d: must be at most experts = %d", m.ExpertsPerToken, m.Experts)
	case m.Experts == 0:
		return nil
	case m.Experts%groups != 0:
		return fmt.Errorf("expert_groups = %d: must divide experts = %d", groups, m.Experts)
	case m.GroupsPerToken > groups:
		return fmt.Errorf("groups_per_token = %d: must be at most expert_groups = %d", m.GroupsPerToken, groups)
	case m.GroupsPerToken*(m.Experts/groups) < m.ExpertsPerToken:
		return fmt.Errorf("groups_per_token = %d: these have %d experts, fewer than experts_per_token = %d",
			m.GroupsPerToken, m.GroupsPerToken*(m.Experts/groups), m.ExpertsPerToken)
	case m.Capacity*float64(m.ExpertsPerToken) > float64(m.Experts):
		return fmt.Errorf("capacity = %g: must be at most experts / experts_per_token = %g, with which every expert "+
			"has room for all tokens", m.Capacity, float64(m.Experts)/float64(m.ExpertsPerToken))
	case m.Capacity > 0 && m.Imbalance > 1:
		return fmt.Errorf("imbalance = %g: with capacity = %g every expert has as many rows as others; remove one "+
			"of the two", m.Imbalance, m.Capacity)
	}
	return nil
}

// checkExperts requires equal shares of experts.
func (m Model) checkExperts(g group.Group) error {
	e, x := g.ExpertParts(), g.ExpertTensorParts()
	switch {
	case !g.Dispatches():
		return nil
	case m.Experts == 0 && g.Expert > 1:
		return fmt.Errorf("experts is missing: parallel.expert = %d divides those of a mixture (family mixtral); "+
			"set parallel.expert = 1", e)
	case m.Experts == 0:
		return nil
	case m.Experts%e != 0:
		return fmt.Errorf("experts = %d: parallel.expert = %d must divide it", m.Experts, e)
	case m.expertHidden()%x != 0:
		return fmt.Errorf("%s = %d: parallel.expert_tensor = %d must divide it", m.expertKey(), m.expertHidden(), x)
	case g.TensorParts() > 1 && !g.Sequence:
		return fmt.Errorf("experts = %d: with parallel.expert = %d and parallel.tensor = %d every device routes a "+
			"part of the sequence; set parallel.sequence = true", m.Experts, e, g.TensorParts())
	}
	return nil
}
