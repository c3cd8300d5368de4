package configs

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules"
)

// hostDevice is the device of the catalog that stands for a core of this machine.
const hostDevice = "cpu-core"

// isCPU reports whether a device of the catalog is a core of a CPU.
func isCPU(device string) bool { return strings.HasSuffix(device, "-core") }

// Executable returns the experiment as it can be executed on a number of devices (0: the number
// that it asks for), and the changes that this needs: training is in fp32, on this machine. The
// changes are also warnings of the experiment.
func (c *Config) Executable(devices int) (*Config, []string, error) {
	if kind, err := c.work(); err != nil {
		return nil, nil, err
	} else if kind != byModel {
		return nil, nil, &Error{Label: c.name, Problem: "only a network can be executed: " +
			"give [model] instead of [times] or [collective]"}
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
		err = next.refuse() // again: a setting may act on this number of devices only
	}
	if err == nil {
		next, err = next.With(sets...)
	}
	if err != nil {
		return nil, nil, err
	}
	if was := machineName(c.Machine); was != "" && was != hostDevice {
		changes = append(changes, fmt.Sprintf("runs on the devices of this machine, not on %s", was))
	}
	next.Machine, next.Memory = costmodel.MachineOptions{Device: hostDevice}, costmodel.MemoryOptions{}
	next.changes = changes
	return next, changes, nil
}

// simulatedOnly lists the settings that turn off what an execution does not do, and describes the
// changes.
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
	if m, err := c.machine(true); err == nil && c.staging(m) && c.Parallel.Data > 1 {
		changes = append(changes, "runs without gloo's copies between devices and hosts")
	}
	if c.Train.DetectAnomaly {
		sets = append(sets, "train.detect_anomaly=false")
		changes = append(changes, "runs without checking gradients for NaN")
	}
	return sets, changes
}

// executedKernels lists the settings for the kernels of an execution, and describes the changes.
func (c *Config) executedKernels() (sets, changes []string) {
	if set := c.Model.UsedKernels().Name; set != models.KernelsFused {
		sets = append(sets, "model.kernels="+models.KernelsFused)
		changes = append(changes, fmt.Sprintf("runs with kernels of its own, not those of %s", set))
	}
	if m, err := c.model(); err == nil && m.Attention == models.AttentionFlash { // otherwise building reports the error
		sets = append(sets, "model.attention="+models.AttentionUnfused)
		changes = append(changes, "runs attention over the whole square, not in one kernel")
	}
	return sets, changes
}

// machineName names a machine for messages; "" if there is none.
func machineName(o costmodel.MachineOptions) string {
	if o.Device == "" && o.File == "" && o.Compute.FLOPS > 0 {
		return "the one of [machine.compute]"
	}
	return cmp.Or(o.Device, o.File)
}

// fit lists the settings that use a number of devices, and describes the changes.
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
		return nil, nil, problem("batch.shards is for %s: give as many, or leave --gpus out",
			units.Plural(len(shards), "replica"))
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
		return nil, nil, problem("its partition or placement is for %s: set schedule.stages = %d and one for that, "+
			"or leave --gpus out", units.Plural(stages, "stage"), devices/replicas)
	default:
		sets = append(sets, fmt.Sprintf("schedule.stages=%d", devices/replicas))
	}
	return sets, []string{fmt.Sprintf("runs on %s instead of %s", units.Plural(devices, "device"), was)}, nil
}

// refuse reports all settings that are simulated, but that an execution does not support.
func (c *Config) refuse() error {
	var causes []error
	for key := range setting.Keys(*c) {
		value := fmt.Sprint(key.Value)
		if key.Executed == nil || reflect.ValueOf(key.Value).IsZero() ||
			slices.Contains(key.Executed, value) || !key.Effective(*c) {
			continue
		}
		section, name, _ := strings.Cut(key.Path, ".")
		causes = append(causes, c.problem(section, fmt.Errorf("%s = %s: is simulated, but not executed; set %s",
			name, setting.Quote(key.Value), executed(key))))
	}
	if model, err := c.model(); err == nil && model.Unexecuted() != nil {
		return together(append(causes, c.problem("model", model.Unexecuted())))
	}
	n, err := c.network()
	mixed := slices.ContainsFunc(n.Layers, func(l network.Layer) bool { return l.Experts > 0 })
	switch {
	case c.Parallel.Zero == 3 && c.Schedule.Name != ddpName:
		causes = append(causes, c.problemf("parallel", "zero = 3: is simulated in a pipeline, but not executed; "+
			"set zero = 0, or schedule.name = %q", ddpName))
	case c.Parallel.Zero == 3 && c.Train.Frozen != "":
		causes = append(causes, c.problemf("train", "frozen = %q: is simulated with zero = 3, but not executed; "+
			"set parallel.zero = 0", c.Train.Frozen))
	case err == nil && mixed: // building reports the error
		causes = append(causes, c.problemf("model",
			"a mixture of experts is simulated, but not executed; gpt, vgg and mlp are"))
	case c.Train.Narrow():
		causes = append(causes, c.problem("train", fmt.Errorf("precision = %q: is simulated, but not executed; "+
			"set precision = \"fp32\"", c.Train.Precision)))
	}
	return together(causes)
}

// together makes one error of several, at the place of the first.
func together(causes []error) error {
	if len(causes) == 0 {
		return nil
	}
	var first *Error
	if !errors.As(causes[0], &first) {
		return causes[0]
	}
	for _, other := range causes[1:] {
		var next *Error
		if errors.As(other, &next) {
			next = &Error{Key: next.Key, Problem: next.Problem}
			first.Problem += "; also" + strings.TrimPrefix(next.Error(), ":")
		}
	}
	return first
}

// executed lists the values of a key that an execution supports.
func executed(key setting.Nested) string {
	var list []string
	for _, value := range key.Executed {
		if reflect.ValueOf(key.Value).Kind() == reflect.String {
			value = strconv.Quote(value)
		}
		list = append(list, key.Key+" = "+value)
	}
	return strings.Join(list, " or ")
}

// Trained returns the network of an experiment with a [model] and the size of its largest
// microbatch in samples, which are needed to measure its layers on any machine.
func (c *Config) Trained() (n network.Network, samples int64, err error) {
	switch kind, err := c.work(); {
	case err != nil:
		return n, 0, err
	case kind != byModel:
		return n, 0, &Error{Label: c.sources[0].label, Problem: "has no [model] whose layers could be measured"}
	case c.Train.Adapts() || c.Train.Frozen != "":
		return n, 0, c.problemf("train",
			"adapter and frozen: layers are measured as they are trained whole; remove both")
	case c.Data.Lengths.Given():
		return n, 0, c.problemf("data", "lengths: layers are measured on whole sequences; remove lengths")
	case c.Train.Precision != "fp32":
		return n, 0, c.problemf("train", "precision = %q: layers are measured in fp32; "+
			"set train.precision = \"fp32\"", c.Train.Precision)
	case c.Parallel.Tensor > 1:
		return n, 0, c.problemf("parallel", "tensor = %d: layers are measured whole; set parallel.tensor = 1",
			c.Parallel.Tensor)
	case c.Parallel.Context > 1:
		return n, 0, c.problemf("parallel", "context = %d: layers are measured over whole sequences; "+
			"set parallel.context = 1", c.Parallel.Context)
	case c.Model.UsedKernels().Name != models.KernelsFused:
		return n, 0, c.problemf("model", "kernels = %q: layers are measured with kernels of psim's own; "+
			"set model.kernels = \"fused\"", c.Model.UsedKernels().Name)
	}
	if n, err = c.network(); err != nil {
		return n, 0, c.problem("model", err)
	}
	if c.Schedule.Detail == schedules.LoopDetail {
		n.Layers, _ = n.LossApart()
	}
	microbatches, _, err := c.Batch.Divide(c.Parallel.Data, c.Schedule.Microbatches)
	if err != nil {
		return n, 0, c.problem("batch", err)
	}
	return n, slices.Max(microbatches), nil
}
