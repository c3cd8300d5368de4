package configs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/internal/units"
)

// hostDevice stands in the catalog for a core of this machine.
const hostDevice = "cpu-core"

// isCPU tells whether a device of the catalog is a core of a CPU.
func isCPU(device string) bool { return strings.HasSuffix(device, "-core") }

// Executable returns the experiment as it can be executed on a number of
// devices (0: as many as it asks for), and what had to be changed for that:
// training is in fp32, and the machine is the one at hand. The changes are
// warnings of its plan, too.
func (c *Config) Executable(devices int) (*Config, []string, error) {
	if kind, err := c.work(); err != nil {
		return nil, nil, err
	} else if kind != byModel {
		return nil, nil, &Error{Label: c.name, Problem: "only a network can be executed: give [model] instead of [times] or [collective]"}
	}
	if err := c.refuse(); err != nil {
		return nil, nil, err
	}
	fitted, changes, err := c.fit(devices)
	if err != nil {
		return nil, nil, err
	}
	changes = slices.Concat(c.changes, changes)
	sets, without := c.simulatedOnly()
	changes = append(changes, without...)
	next, err := c.with(fmt.Sprintf("--gpus %d", devices), fitted...)
	if err == nil {
		next, err = next.With(sets...)
	}
	if err != nil {
		return nil, nil, err
	}
	if was := machineName(c.Machine); was != "" && was != hostDevice {
		changes = append(changes, fmt.Sprintf("runs on the devices of this machine, not on %s", was))
	}
	next.Machine, next.Memory, next.changes = costmodel.MachineOptions{Device: hostDevice}, costmodel.MemoryOptions{}, changes
	return next, changes, nil
}

// simulatedOnly lists the settings that undo what has no effect on an execution, and says
// so.
func (c *Config) simulatedOnly() (sets, changes []string) {
	if p := c.Train.Precision; p != "" && p != "fp32" && !c.Train.Narrow() {
		sets = append(sets, "train.precision=fp32")
		changes = append(changes, fmt.Sprintf("runs in fp32, not %s", p))
	}
	if c.Schedule.WholeLast {
		sets = append(sets, "schedule.whole_last=false")
		changes = append(changes, "runs the last stage one microbatch at a time, not on all at once")
	}
	kernelSets, kernelChanges := c.executedKernels()
	sets, changes = append(sets, kernelSets...), append(changes, kernelChanges...)
	if c.Train.DetectAnomaly {
		sets = append(sets, "train.detect_anomaly=false")
		changes = append(changes, "runs without looking through gradients for NaN")
	}
	return sets, changes
}

// executedKernels sets the kernels that an execution has.
func (c *Config) executedKernels() (sets, changes []string) {
	if set := c.Model.UsedKernels(); set != models.KernelsFused {
		sets = append(sets, "model.kernels="+models.KernelsFused)
		changes = append(changes, fmt.Sprintf("runs with kernels of its own, not those of %s", set))
	}
	if m, err := c.model(); err == nil && m.Attention == models.AttentionFlash { // if not, building will say so
		sets = append(sets, "model.attention="+models.AttentionUnfused)
		changes = append(changes, "runs attention over the whole square, not in one kernel")
	}
	return sets, changes
}

// machineName says what to call a machine; "" for none.
func machineName(o costmodel.MachineOptions) string {
	if o.Device == "" && o.File == "" && o.Compute.FLOPS > 0 {
		return "the one of [machine.compute]"
	}
	return cmp.Or(o.Device, o.File)
}

// fit finds the settings that use so many devices.
func (c *Config) fit(devices int) (sets, changes []string, err error) {
	if c, _, err = c.ordered(); err != nil {
		return nil, nil, err
	}
	stages, replicas := max(1, c.Schedule.Stages), max(1, c.Parallel.Data)
	if devices == 0 || devices == stages*replicas {
		return nil, nil, nil
	}
	problem := func(text string, args ...any) error {
		return fmt.Errorf("%s for %s: %s", units.Plural(devices, "device"), c.name, fmt.Sprintf(text, args...))
	}
	if shards := c.Batch.Shards; shards != nil && devices != stages*len(shards) {
		return nil, nil, problem("batch.shards is for %s: give as many, or leave --gpus out", units.Plural(len(shards), "replica"))
	}
	if c.Schedule.File == "" && c.Schedule.Name == ddpName {
		batch, change := c.scaled(devices)
		return append(batch, fmt.Sprintf("parallel.data=%d", devices)),
			[]string{fmt.Sprintf("runs %s instead of %d%s", units.Plural(devices, "replica"), replicas, change)}, nil
	}
	was := units.Plural(stages, "stage")
	if replicas > 1 {
		was += " × " + units.Plural(replicas, "replica")
	}
	switch {
	case c.Schedule.File != "":
		return nil, nil, problem("the order of schedule.file is for %s", units.Plural(stages, "rank"))
	case devices%replicas != 0:
		return nil, nil, problem("they must be a multiple of parallel.data = %d", replicas)
	case c.Schedule.Placement != nil || c.Schedule.Partition.Layers != nil:
		return nil, nil, problem("its partition or placement is for %s: set schedule.stages = %d and one for that, or leave --gpus out", units.Plural(stages, "stage"), devices/replicas)
	default:
		sets = append(sets, fmt.Sprintf("schedule.stages=%d", devices/replicas))
	}
	return sets, []string{fmt.Sprintf("runs on %s instead of %s", units.Plural(devices, "device"), was)}, nil
}

// refuse reports what is simulated but not executed.
func (c *Config) refuse() error {
	mixed := false
	if n, err := c.network(); err == nil { // if not, building will say so
		mixed = slices.ContainsFunc(n.Layers, func(l network.Layer) bool { return l.Experts > 0 })
	}
	switch {
	case c.Parallel.Expert > 1:
		return c.problem("parallel", fmt.Errorf("expert = %d: is simulated, but not executed; set expert = 1", c.Parallel.Expert))
	case mixed:
		return c.problem("model", errors.New("a mixture of experts is simulated, but not executed; gpt, vgg and mlp are"))
	case c.Parallel.Tensor > 1:
		return c.problem("parallel", fmt.Errorf("tensor = %d: is simulated, but not executed; set tensor = 1", c.Parallel.Tensor))
	case c.Parallel.Context > 1:
		return c.problem("parallel", fmt.Errorf("context = %d: is simulated, but not executed; set context = 1", c.Parallel.Context))
	case c.Parallel.Zero == 1 || c.Parallel.Zero == 2:
		return c.problem("parallel", fmt.Errorf("zero = %d: is simulated, but not executed yet; 0 (all-reduce) and 3 (FSDP) are", c.Parallel.Zero))
	case c.Train.Narrow():
		return c.problem("train", fmt.Errorf("precision = %q: is simulated, but not executed yet; set precision = \"fp32\"", c.Train.Precision))
	case c.Train.Moments == "bf16":
		return c.problem("train", errors.New(`moments = "bf16": is simulated, but not executed yet; set moments = "fp32"`))
	case c.Train.Clip:
		return c.problem("train", errors.New("clip = true: is simulated, but not executed yet; set clip = false"))
	case c.Train.Recompute != "none" && c.Train.Recompute != "full":
		return c.problem("train", fmt.Errorf("recompute = %q: is simulated, but not executed yet; \"none\" and \"full\" are", c.Train.Recompute))
	case c.Train.RecomputeLayers > 0 && c.Train.Recompute == "full":
		return c.problem("train", fmt.Errorf("recompute_layers = %d: is simulated, but not executed yet; 0 (every block from its own input) is", c.Train.RecomputeLayers))
	}
	return nil
}

// Trained is the network of an experiment with a [model], and the size of its
// largest microbatch, in samples: what has to be known to measure its layers,
// on whatever machine.
func (c *Config) Trained() (n network.Network, samples int64, err error) {
	switch kind, err := c.work(); {
	case err != nil:
		return n, 0, err
	case kind != byModel:
		return n, 0, &Error{Label: c.sources[0].label, Problem: "has no [model] whose layers could be measured"}
	case c.Train.Precision != "fp32":
		return n, 0, c.problem("train", fmt.Errorf("precision = %q: layers are measured in fp32; set train.precision = \"fp32\"", c.Train.Precision))
	case c.Parallel.Tensor > 1:
		return n, 0, c.problem("parallel", fmt.Errorf("tensor = %d: layers are measured whole; set parallel.tensor = 1", c.Parallel.Tensor))
	case c.Parallel.Context > 1:
		return n, 0, c.problem("parallel", fmt.Errorf("context = %d: layers are measured over whole sequences; set parallel.context = 1", c.Parallel.Context))
	case c.Model.UsedKernels() != models.KernelsFused:
		return n, 0, c.problem("model", fmt.Errorf("kernels = %q: layers are measured with kernels of psim's own; set model.kernels = \"fused\"", c.Model.UsedKernels()))
	}
	if n, err = c.network(); err != nil {
		return n, 0, c.problem("model", err)
	}
	microbatches, _, err := c.Batch.Divide(c.Parallel.Data, c.Schedule.Microbatches)
	if err != nil {
		return n, 0, c.problem("batch", err)
	}
	return n, slices.Max(microbatches), nil
}
