package advise

import (
	"context"
	"fmt"
	"strings"

	"psim"
	"psim/results"
)

// method is a way to train a network on few devices.
type method struct {
	name string
	sets []string
	solo []string // further settings on one device
}

// methods lists the ways from the one that changes most of a network to the one that takes least memory. Every
// one repeats the forward of its blocks and goes through the logits in chunks, as recipes for small memories do.
func methods() []method {
	const rank = "train.adapter.rank=16"
	return []method{
		{name: "full, AdamW with fp32 weights"},
		{
			name: "full in bf16, 8-bit AdamW",
			sets: []string{"train.master_weights=none", "train.optimizer=adamw-8bit"},
			solo: []string{"train.update_in=backward", "train.optimizer=paged-adamw-8bit"},
		},
		{name: "LoRA r 16", sets: []string{"train.adapter.kind=lora", rank}},
		{name: "QLoRA r 16", sets: []string{"train.adapter.kind=qlora", rank}},
	}
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

// FineTune adds to a prediction of a network without a plan, which does not fit in memory, what fine-tuning
// would take on the same devices, and reports whether any of it fits.
func FineTune(ctx context.Context, p *psim.Prediction) (fits bool) {
	if p.Result.Fits() || p.Config.HasPlan() || !p.Config.Model.Transformer() || p.Config.Train.Precision != "bf16" {
		return false
	}
	for _, m := range methods() {
		for _, l := range fineTuningLayouts(p.Devices()) {
			sets := append([]string{"train.recompute=full", "model.loss=chunked"}, m.sets...)
			if l.devices == 1 {
				sets = append(sets, m.solo...)
			}
			sets = append(sets, l.sets...)
			c, err := p.Config.With(sets...)
			if err != nil {
				continue // a setting of the user excludes it
			}
			tried, err := psim.Estimate(ctx, c)
			if err != nil {
				continue
			}
			row := results.Remedy{
				Training: m.name, Layout: l.name, Devices: l.devices, Set: sets, PeakMemory: tried.Result.PeakMemory(),
				Fits: &tried.Result.FitsMemory, Tokens: tried.Result.Throughput.Tokens,
				StepTime: tried.Result.StepTime, Samples: tried.Result.Throughput.Samples,
			}
			if len(tried.Result.Ranks) > 0 {
				row.MemoryCapacity = tried.Result.Ranks[0].MemoryCapacity
			}
			p.Result.FineTuning = append(p.Result.FineTuning, row)
			fits = fits || *row.Fits
		}
	}
	if fits {
		var flags []string
		for _, set := range best(p.Result.FineTuning).Set {
			flags = append(flags, "--set "+set)
		}
		p.Result.Warnings = append(p.Result.Warnings, "the first of the ways to train above that fits has "+
			strings.Join(flags, " "))
	}
	return fits
}

// best returns the first row that fits, the fastest of its method.
func best(rows []results.Remedy) (best results.Remedy) {
	for _, row := range rows {
		if *row.Fits && (best.Training == "" || row.Training == best.Training && row.Tokens > best.Tokens) {
			best = row
		}
	}
	return best
}
