package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"psim"
	"psim/configs"
	"psim/results"
)

// method is a way to train a network on few devices.
type method struct {
	name string
	sets []string
	solo []string // the settings on one device, if others
	bf16 bool     // whether it needs 16 bits with the range of fp32
}

// methods lists the ways from the one that changes most of a network to the one that takes least memory. Every
// one repeats the forward of its blocks and goes through the logits in chunks, as recipes for small memories do.
func methods() []method {
	return []method{
		{name: "full, AdamW with fp32 weights"},
		{
			name: "full in bf16, 8-bit AdamW",
			sets: []string{"train.master_weights=none", "train.optimizer=adamw-8bit"},
			solo: []string{
				"train.master_weights=none", "train.update_in=backward", "train.optimizer=paged-adamw-8bit",
			},
			bf16: true,
		},
		{name: "LoRA r 16", sets: []string{"train.adapter.kind=lora", rank}},
		{name: "QLoRA r 16", sets: []string{"train.adapter.kind=qlora", rank}},
	}
}

// rank is that of the adapters of methods.
const rank = "train.adapter.rank=16"

// packedMethods lists the ways that are worth a row only where no other fits.
func packedMethods() []method {
	return []method{{
		name: "double-quantised QLoRA r 16",
		sets: []string{"train.adapter.kind=qlora", rank, "train.adapter.double_quant=true"},
	}}
}

// spread is a way to use devices.
type spread struct {
	name    string
	devices int
	sets    []string
}

// fineTuningLayouts lists the ways to use a number of devices: one of them alone, replicas, and sharded replicas.
func fineTuningLayouts(devices int) []spread {
	list := []spread{{"one device", 1, []string{"schedule.name=ddp", "parallel.zero=0", "parallel.data=1"}}}
	if devices > 1 {
		data := fmt.Sprintf("parallel.data=%d", devices)
		list = append(list, spread{"DDP", devices, []string{"schedule.name=ddp", "parallel.zero=0", data}},
			spread{"FSDP", devices, []string{"schedule.name=fsdp", data}})
	}
	return list
}

// dividedLayouts lists ways in which several devices hold the network once, with as many samples in a step as
// replicas would have.
func dividedLayouts(devices int) []spread {
	if devices < 2 {
		return nil
	}
	once := []string{"parallel.zero=0", "parallel.data=1", fmt.Sprintf("schedule.microbatches=%d", devices)}
	pipeline := append([]string{"schedule.name=1f1b", fmt.Sprintf("schedule.stages=%d", devices)}, once...)
	group := append([]string{
		"schedule.name=ddp", fmt.Sprintf("parallel.tensor=%d", devices), "parallel.sequence=true",
	}, once...)
	return []spread{{"pipeline", devices, pipeline}, {"tensor group", devices, group}}
}

// plain reports whether the configuration says nothing of what the ways to fine-tune differ in.
func plain(c *configs.Config) bool {
	t, p := c.Train, c.Parallel
	return !t.Adapts() && t.Frozen == "" && t.Optimizer == "adamw" && t.MasterWeights != "none" &&
		max(p.Tensor, p.Context, p.Expert, c.Schedule.Stages) <= 1
}

// leastLength is the shortest sample that is tried where longer ones do not fit.
const leastLength = 512

// FineTune adds to a prediction of a network without a plan, which does not fit in memory, what fine-tuning
// would take on the same devices, and reports whether any of it fits. Where neither a device alone nor replicas
// do, the devices hold the network once, and samples become shorter by halves until something fits.
func FineTune(ctx context.Context, p *psim.Prediction) (fits bool) {
	precision := p.Config.Train.Precision
	if p.Result.Fits() || p.Config.HasPlan() || !p.Config.Model.Transformer() || !plain(p.Config) ||
		precision != "bf16" && precision != "fp16" {
		return false
	}
	all, least := methods(), packedMethods()
	replicas, divided := fineTuningLayouts(p.Devices()), dividedLayouts(p.Devices())
	every := trials{slices.Concat(all, least), slices.Concat(replicas, divided), 0}
	rows := trials{all, replicas, 0}.rows(ctx, p)
	if fitting(rows) == nil {
		rows = slices.Concat(rows, trials{least, replicas, 0}.rows(ctx, p),
			trials{every.methods, divided, 0}.rows(ctx, p))
	}
	found := fitting(rows)
	for every.length = p.Result.SequenceLength / 2; found == nil && every.length >= leastLength; every.length /= 2 {
		found = fitting(every.rows(ctx, p))
		rows = append(rows, found...)
	}
	p.Result.FineTuning = rows
	for _, row := range best(rows) {
		p.Result.Warnings = append(p.Result.Warnings, fmt.Sprintf("%s (%s) is --set %s", row.Training, row.Layout,
			strings.Join(row.Set, " --set ")))
	}
	return found != nil
}

// trials are methods, each under every layout.
type trials struct {
	methods []method
	layouts []spread
	length  int // tokens of a sample; 0 keeps that of the configuration
}

// rows predicts the trials.
func (t trials) rows(ctx context.Context, p *psim.Prediction) (rows []results.Remedy) {
	for _, m := range t.methods {
		if m.bf16 && p.Config.Train.Precision != "bf16" {
			continue
		}
		for _, l := range t.layouts {
			own := m.sets
			if l.devices == 1 && m.solo != nil {
				own, l.name = m.solo, l.name+", paged"
			}
			sets := slices.Concat([]string{"train.recompute=full", "model.loss=chunked"}, own, l.sets)
			if t.length > 0 {
				sets = append(sets, fmt.Sprintf("model.sequence_length=%d", t.length))
			}
			row, err := tryToTrain(ctx, p, sets)
			if err != nil {
				continue // a setting of the user excludes it
			}
			row.Training, row.Layout, row.SequenceLength = m.name, l.name, t.length
			rows = append(rows, *row)
		}
	}
	return rows
}

// fitting lists the rows that fit.
func fitting(rows []results.Remedy) (fit []results.Remedy) {
	for _, row := range rows {
		if *row.Fits {
			fit = append(fit, row)
		}
	}
	return fit
}

// tryToTrain predicts a network with other settings.
func tryToTrain(ctx context.Context, p *psim.Prediction, sets []string) (*results.Remedy, error) {
	c, err := p.Config.With(sets...)
	if err != nil {
		return nil, err
	}
	tried, err := psim.Estimate(ctx, c)
	if err != nil {
		return nil, err
	}
	row := tried.Result.Remedy(sets)
	row.Fits, row.Tokens = &tried.Result.FitsMemory, tried.Result.Throughput.Tokens
	if len(tried.Result.Ranks) > 0 {
		row.MemoryCapacity = tried.Result.Ranks[0].MemoryCapacity
	}
	return row, nil
}

// best lists the fastest row that fits of each method.
func best(rows []results.Remedy) (best []results.Remedy) {
	for _, row := range rows {
		last := len(best) - 1
		switch {
		case !*row.Fits:
		case last < 0 || best[last].Training != row.Training:
			best = append(best, row)
		case row.Tokens > best[last].Tokens:
			best[last] = row
		}
	}
	return best
}
