package configs

import (
	"fmt"
	"slices"

	"psim/configs/parallel"
	"psim/costmodel"
	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// gloo is the value of parallel.collectives for a library that works in the memory of hosts.
const gloo = "gloo"

// staging reports whether collectives copy tensors to the host and back: with gloo, on devices with
// memory of their own.
func (c *Config) staging(m costmodel.Machine) bool {
	return c.Parallel.Collectives == gloo && m.HostLink.Bandwidth > 0 && !isCPU(m.Device.Name)
}

// withoutCopies warns if the copies of gloo are left out because the link to the host is unknown.
func (c *Config) withoutCopies(m costmodel.Machine) []string {
	known := m.Device.Description != "" // otherwise it may be a core of a CPU
	if c.Parallel.Collectives != gloo || c.Parallel.Data*c.Parallel.Context < 2 ||
		m.HostLink.Bandwidth > 0 || !known || isCPU(m.Device.Name) {
		return nil
	}
	return []string{fmt.Sprintf("parallel.collectives = %q: copies between %s and its host are left out, since its "+
		"host_link is unknown; give machine.host_link, such as \"pcie5\"", gloo, m.Device.Name)}
}

// copiesToHost reports whether collectives copy tensors to the host and back.
func (p *Experiment) copiesToHost() bool {
	return slices.ContainsFunc(p.Graph.Classes, func(t graph.Task) bool { return t.Kind.Staging() })
}

// checkOffloadApart refuses activations in the memory of hosts in a pipeline.
func (c *Config) checkOffloadApart() error {
	if n := c.Train.OffloadActivations; n > 0 && (c.Schedule.Stages > 1 || c.PerRank() > 1) {
		return fmt.Errorf("offload_activations = %d: is modelled without a pipeline, as Megatron-LM requires; "+
			"set schedule.stages = 1", n)
	}
	return nil
}

// checkOffload refuses activations in the memory of hosts where it is not modelled.
func (c *Config) checkOffload(w *stages.Workload, m costmodel.Machine, schedule schedules.Schedule) error {
	n := c.Train.OffloadActivations
	if n == 0 {
		return nil
	}
	_, _, err := w.Training.Offloaded(w.Network.Layers)
	switch {
	case err != nil:
	case m.HostLink.Bandwidth == 0:
		err = fmt.Errorf(`offload_activations = %d: needs the link to the host's memory; set machine.host_link, `+
			`such as "pcie4"`, n)
	case schedule.Stashing || c.Schedule.Synchronous || IsSearched(schedule.Name) || c.Schedule.File != "":
		err = fmt.Errorf(`offload_activations = %d: is not modelled with schedule %s; set schedule.name = "ddp"`,
			n, c.Schedule.Name)
	case c.Parallel.Unit == parallel.UnitStage:
		err = fmt.Errorf(`offload_activations = %d: needs blocks that are gathered one by one; `+
			`set parallel.gather_unit = "block"`, n)
	}
	if err != nil {
		return c.problem("train", err)
	}
	return nil
}

// checkCopied refuses activations in the memory of hosts where backwards are split, or wait for each other.
func (c *Config) checkCopied(p wiring.Pipeline) error {
	if n := c.Train.OffloadActivations; n > 0 && (p.Order.Split() || p.Order.Paired() || p.SerialBackward) {
		return c.problemf("train", `offload_activations = %d: is modelled with whole backwards, one after another, `+
			`and not with schedule %s; set schedule.name = "ddp"`, n, c.Schedule.Name)
	}
	return nil
}

// checkLoop refuses settings for which the tasks of a training loop are not modelled, and copies of
// collectives that gloo does not have.
func (c *Config) checkLoop(w *stages.Workload) error {
	if w.Staging && c.Parallel.Expert > 1 {
		return c.problemf("parallel", `collectives = "gloo": has no all-to-all of tensors on devices, which `+
			`parallel.expert = %d needs; set collectives = "nccl"`, c.Parallel.Expert)
	}
	switch {
	case !w.Loop:
		return nil
	case c.Parallel.Expert > 1:
		return c.problemf("schedule", `detail = "loop": is not modelled with parallel.expert = %d; set "step"`,
			c.Parallel.Expert)
	}
	if _, ok := w.Network.LossApart(); !ok {
		return c.problemf("schedule", `detail = "loop": the network %s does not end with a loss; set detail = %q`,
			w.Network.Name, schedules.StepDetail)
	}
	return nil
}
