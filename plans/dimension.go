package plans

import (
	"fmt"
	"slices"
	"strconv"
)

// A dimension is one choice that a plan makes. Dimensions are chosen in order, so that
// legal values may depend on earlier choices.
type dimension struct {
	key string
	at  func(*Plan) any // *int, *int64, *string or *bool
	// values lists the values to try unless the query asks for others.
	values func(s *Space, p *Plan) []string
	// legal reports whether a plan's value is legal with the earlier choices.
	legal func(s *Space, p *Plan) bool
	// implied reports whether the settings of a plan may omit the value if the
	// configuration does not set it; nil is never.
	implied func(p *Plan) bool
}

// dimensions lists all dimensions. A new one needs a field of rankings.PlanShape, a row
// here, its effect in Plan.divide, and a place in layerKey or stageKey.
func dimensions() []dimension {
	return []dimension{
		{"parallel.tensor", func(p *Plan) any { return &p.Tensor }, (*Space).tensors, (*Space).legalTensor, nil},
		{"parallel.context", func(p *Plan) any { return &p.Context }, (*Space).contexts, (*Space).legalContext,
			func(p *Plan) bool { return p.Context == 1 }},
		{"schedule.stages", func(p *Plan) any { return &p.Stages }, (*Space).stages, (*Space).legalStages, nil},
		{"parallel.data", func(p *Plan) any { return &p.Data }, (*Space).replicas, (*Space).legalReplicas, nil},
		{"parallel.expert", func(p *Plan) any { return &p.Expert }, (*Space).experts, (*Space).legalExpert,
			func(p *Plan) bool { return p.Expert == 1 }},
		{"parallel.expert_tensor", func(p *Plan) any { return &p.ExpertTensor }, (*Space).expertTensors,
			(*Space).legalExpert, func(p *Plan) bool { return p.ExpertTensor == 0 }},
		{"batch.micro", func(p *Plan) any { return &p.Micro }, (*Space).micro, (*Space).legalMicro, nil},
		{"schedule.microbatches", func(p *Plan) any { return &p.Microbatches }, (*Space).microbatches,
			(*Space).legalMicrobatches, func(*Plan) bool { return true }},
		{"schedule.name", func(p *Plan) any { return &p.Schedule },
			func(s *Space, _ *Plan) []string { return s.names }, (*Space).legalName, nil},
		{"schedule.virtual_stages", func(p *Plan) any { return &p.VirtualStages }, (*Space).virtual,
			(*Space).legalVirtual, nil},
		{"train.recompute", func(p *Plan) any { return &p.Recompute }, (*Space).recomputes,
			(*Space).legalRecompute, nil},
		{"parallel.zero", func(p *Plan) any { return &p.Zero }, (*Space).zeros, (*Space).legalZero, nil},
		{"parallel.sequence", func(p *Plan) any { return &p.Sequence }, (*Space).sequences,
			(*Space).legalSequence, nil},
	}
}

// Keys lists the keys of all dimensions.
func Keys() []string {
	var keys []string
	for _, d := range dimensions() {
		keys = append(keys, d.key)
	}
	return keys
}

// text prints the value of a dimension.
func text(at any) string {
	switch v := at.(type) {
	case *int:
		return strconv.Itoa(*v)
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *bool:
		return strconv.FormatBool(*v)
	}
	return *at.(*string)
}

// assign parses a value of a dimension.
func assign(at any, value string) (err error) {
	switch v := at.(type) {
	case *int:
		*v, err = strconv.Atoi(value)
	case *int64:
		*v, err = strconv.ParseInt(value, 10, 64)
	case *bool:
		*v, err = strconv.ParseBool(value)
	case *string:
		*v = value
	}
	if err != nil {
		return fmt.Errorf("invalid value %q", value)
	}
	return nil
}

// divisors lists the divisors of a number in ascending order.
func divisors(n int64) []string {
	var list []int64
	for d := int64(1); d*d <= n; d++ {
		if n%d == 0 {
			list = append(list, d)
			if d*d != n {
				list = append(list, n/d)
			}
		}
	}
	slices.Sort(list)
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = strconv.FormatInt(d, 10)
	}
	return texts
}
