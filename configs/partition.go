package configs

import (
	"errors"
	"fmt"
	"strings"

	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/partition"
)

// partition cuts the network into stages and places them.
func (c *Config) partition(w *stages.Workload, m costmodel.Machine, schedule schedules.Schedule) error {
	n := len(w.Network.Layers)
	if c.Schedule.Stages > n {
		return fmt.Errorf("stages = %d: %s", c.Schedule.Stages, tooFewLayers(w.Network))
	}
	shape := c.shape(schedule, len(w.Samples))
	if err := schedule.Check(shape); err != nil {
		return err
	}
	w.Placement = schedule.Placement(shape)
	if w.Placement.Second != nil && c.Parallel.Sharded() > 1 {
		return fmt.Errorf("name = %q: holds every stage twice, which is not modelled with parallel.zero = %d; "+
			"set it to 0 or 1", schedule.Name, c.Parallel.Zero)
	}
	if w.Placement.Second != nil && c.Parallel.OverlapGather && c.Defined("parallel.overlap_gather") {
		return fmt.Errorf("name = %q: holds every stage twice, which is not modelled with parallel.overlap_gather = "+
			"true; set it to false", schedule.Name)
	}
	stageRank, err := c.placement(c.Schedule.Stages)
	if err != nil {
		return err
	}
	if stageRank != nil {
		w.Placement.First = stageRank
	}
	if stages := len(w.Placement.First); stages > n {
		return fmt.Errorf("virtual_stages = %d: %d stages in all, but %s", c.Schedule.VirtualStages, stages,
			tooFewLayers(w.Network))
	}
	if stageRank != nil && c.Schedule.Partition.Rule == schedules.PresetPartition {
		return errors.New(`placement: partition = "preset" places the stages itself; remove one of the two`)
	}
	if err := c.cut(w, m); err != nil {
		key := "stages"
		if c.Defined("schedule.partition") {
			key = "partition"
		}
		return fmt.Errorf("%s: %w (the %d layers of %s are %s)", key, err, n, w.Network.Name, layerNames(w.Network))
	}
	return nil
}

// cut chooses the number of layers of every stage. A preset or tagged partition also places the
// stages.
func (c *Config) cut(w *stages.Workload, m costmodel.Machine) (err error) {
	n, stages, by := len(w.Network.Layers), len(w.Placement.First), c.Schedule.Partition
	switch {
	case c.uneven() && (by.Layers != nil || by.Rule != "" && by.Rule != schedules.BlocksPartition):
		return errors.New(`first_blocks and last_blocks go with partition = "blocks" alone`)
	case by.Layers != nil:
		w.Layers, err = partition.Explicit(by.Layers, n, stages)
	case by.Rule == schedules.PresetPartition:
		w.Layers, w.Placement.First, err = presetPartition(w.Network, c.Schedule.Stages)
	case by.Rule == schedules.TaggedPartition && len(c.Schedule.Placement) != n:
		return fmt.Errorf(`"tagged" needs placement to have the rank of each of %d layers, and it has %d`, n,
			len(c.Schedule.Placement))
	case by.Rule == schedules.TaggedPartition:
		w.Layers, w.Placement.First = partition.Tagged(c.Schedule.Placement)
	case by.Rule == schedules.BlocksPartition || c.uneven():
		before, blocks, after := w.Network.Ends()
		if blocks == 0 {
			return errors.New(`"blocks": needs the blocks of a transformer, and this network has no blocks; ` +
				`use "balanced" or "equal"`)
		}
		w.Layers, err = partition.Blocks(blocks, partition.Ends{
			Before: before, After: after, First: c.Schedule.FirstBlocks, Last: c.Schedule.LastBlocks,
		}, stages)
	case by.Rule == schedules.EqualPartition:
		w.Layers, err = partition.Equal(n, stages)
	case stages == 1:
		w.Layers = []int{n}
	default:
		w.Layers, err = c.shared.cut(w, stages, func() ([]int, error) {
			costs, err := c.shared.layerCosts(w, m)
			if err != nil {
				return nil, err
			}
			return partition.Balanced(costs, stages)
		})
	}
	return err
}

// uneven reports whether the first or the last stage has its own number of blocks.
func (c *Config) uneven() bool { return c.Schedule.FirstBlocks+c.Schedule.LastBlocks > 0 }

// presetPartition returns the cut and the placement of a network that has its own.
func presetPartition(n network.Network, ranks int) ([]int, []int32, error) {
	if strings.HasPrefix(n.Name, "vgg16-pipeline") || strings.HasPrefix(n.Name, "vgg-mini-pipeline") {
		layers, err := models.VGG16Split(ranks)
		return layers, graph.InOrder(ranks).First, err
	}
	if !strings.HasPrefix(n.Name, "gpt2") {
		return nil, nil, fmt.Errorf(`gpt2, vgg16-pipeline and vgg-mini-pipeline have a partition "preset", `+
			`%s has none`, n.Name)
	}
	return models.GPT2Placement(n, ranks)
}

// layerCosts prices every layer as it is trained, forward and backward, for the first
// microbatch: the time of the device or of its host, whichever is longer.
func layerCosts(layers []network.Layer, w stages.Workload, m costmodel.Machine) ([]float64, error) {
	compute, err := m.Compute(w.Training)
	if err != nil {
		return nil, err
	}
	repeated := w.Training.RecomputeLayers * len(w.Placement.First)
	byBlock := w.Training.RecomputeMethod == training.RecomputeBlock
	if repeated > 0 && repeated < len(w.Network.Layers) && byBlock {
		w.Training.Recompute = "none" // every stage repeats the same number of blocks
	}
	costs := make([]float64, len(w.Network.Layers))
	same := network.Same(layers)
	for i, l := range layers {
		n := w.Samples[0]
		if k := same[i]; k < i {
			costs[i] = costs[k]
			continue
		}
		device := compute.Layer(l, network.Forward, n) + compute.Backward(l, n) + compute.Recompute(l, w.Training, n)
		costs[i] = float64(max(device, m.Host.Launching(&compute, l, w.Training, n)))
	}
	return costs, nil
}

// tooFewLayers explains why a network cannot be cut into the stages asked for.
func tooFewLayers(n network.Network) string {
	return fmt.Sprintf("%s has %d layers, and every stage needs at least one (%s)", n.Name, len(n.Layers),
		layerNames(n))
}

// layerNames lists a network's layers for messages, shortened.
func layerNames(n network.Network) string {
	var names []string
	for _, l := range n.Layers {
		names = append(names, l.Name)
	}
	if len(names) > 6 {
		names = append(append(names[:3:3], "…"), names[len(names)-2:]...)
	}
	return strings.Join(names, ", ")
}
