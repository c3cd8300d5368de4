package export

import (
	"fmt"

	"psim/configs"
	"psim/internal/setting"
	"psim/schedules/graph"
)

// held returns what a configuration says of [memory], without keys that have no effect.
func held(c *configs.Config, shape graph.Shape) map[string]any {
	table := setting.Object(c.Memory, func(s setting.Setting) bool { return s.Meaningless("[model]") })
	if shape.Stages() < 2 {
		delete(table, "keep_outputs")
	}
	if c.Parallel.Zero < 3 {
		delete(table, "fp32_shards")
	}
	if c.Train.Base() == "fp32" {
		delete(table, "gradient_copies")
	}
	return table
}

// assumed reports whether a key, which a program that was read back has otherwise, is psim's assumption: the memory
// besides tensors. No argument of a program sets it, so that it is noted and not refused.
func (p *trainerPlan) assumed(key, wanted, got string) bool {
	switch key {
	case "memory.context", "memory.buffers", "memory.allocator":
	default:
		return false
	}
	p.changes = append(p.changes, fmt.Sprintf("left aside: %s = %s; it is psim's assumption, which nothing in %s sets "+
		"(%s with its stack)", key, wanted, p.program, got))
	return true
}

// leftMemory names the keys of [memory] that a configuration gives, for a program that holds what it holds.
func leftMemory(c *configs.Config) (left []string) {
	for _, s := range c.Memory.Settings() {
		if key := "memory." + s.Key; c.Defined(key) {
			left = append(left, "left aside: "+key+"; the program holds what PyTorch holds")
		}
	}
	return left
}
