package configs

import (
	"fmt"

	"psim/configs/parallel"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// checkSize refuses a graph that would be too large, before it is built: every stage has a forward
// and a backward of every microbatch, in every replica.
func (c *Config) checkSize() error {
	if tasks := 2 * c.stageMicrobatches(); tasks > graph.MaxTasks {
		stages := c.stages()
		key, value := "microbatches", tasks/2/stages/float64(c.Parallel.Data)
		if stages > value && c.Parallel.Zero < 3 {
			key, value = "stages", stages
		}
		return fmt.Errorf("%s = %.0f: the graph would have at least %.2g tasks, more than %d", key, value, tasks,
			graph.MaxTasks)
	}
	return nil
}

// Tasks estimates the size of the graph before its order is made, without the sums over replicas
// at the end. Wiring counts exactly.
func (c *Config) Tasks() float64 {
	if kind, err := c.work(); err == nil && kind == byCollective {
		ring, _ := collective.Find(c.Schedule.Name) // without a name there are no tasks
		return ring.Tasks(c.Collective.Ranks)
	}
	// F, I, W and a message after each of the first two; or with ZeRO 3 F, B, a gather before each,
	// and a sum.
	const most = 5
	return most * c.stageMicrobatches()
}

// Ranks counts the ranks of all replicas.
func (c *Config) Ranks() float64 {
	if kind, err := c.work(); err == nil && kind == byCollective {
		return float64(c.Collective.Ranks)
	}
	return float64(max(1, c.Schedule.Stages)) * float64(c.Parallel.Data)
}

// Devices counts the devices of all ranks, before any graph is built.
func (c *Config) Devices() float64 {
	return c.Ranks() * float64(max(1, c.Parallel.Tensor)) * float64(max(1, c.Parallel.Context))
}

// Microbatches estimates the number of microbatches of a replica.
func (c *Config) Microbatches() float64 {
	microbatches := float64(max(1, c.Schedule.Microbatches))
	if c.Batch.Micro > 0 {
		microbatches = max(microbatches, float64(c.Batch.Global)/float64(c.Parallel.Data)/float64(c.Batch.Micro))
	}
	return microbatches
}

func (c *Config) stageMicrobatches() float64 {
	return c.stages() * c.Microbatches() * float64(c.Parallel.Data)
}

// stages counts the stages; with ZeRO 3 these are the units that are gathered.
func (c *Config) stages() float64 {
	if c.Parallel.Zero == 3 && c.Parallel.Unit != parallel.UnitStage {
		if n, err := c.network(); err == nil { // otherwise building reports the error
			return float64(len(n.Layers))
		}
	}
	return float64(max(1, c.Schedule.Stages)) * float64(c.PerRank())
}

// PerRank counts the stages of a rank.
func (c *Config) PerRank() int {
	virtual := c.Schedule.VirtualStages
	if s, err := findSchedule(c.Schedule.Name); err == nil {
		virtual = c.shape(s, 1).Virtual
	}
	return max(1, virtual)
}
