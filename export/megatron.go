package export

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"psim/configs"
	"psim/internal/setting"
	"psim/launch"
)

// WriteMegatron writes a launch script of Megatron-LM that trains by a configuration. The script is read back: a key
// that Megatron-LM has no argument for, or that the script does not say, is an error that names it. It returns what
// the program follows in its place.
func WriteMegatron(ctx context.Context, w io.Writer, c *configs.Config) (done *Followed, err error) {
	p, err := planMegatron(ctx, c)
	if err != nil {
		return nil, err
	}
	machine := p.experiment.Machine
	devices := p.devices()
	each := devices
	if n := machine.DevicesPerNode; n > 0 && n < devices {
		each = n
	}
	if devices%each != 0 {
		return nil, p.unsayable(&launch.Unsayable{Key: "machine.devices_per_node", Problem: fmt.Sprintf(
			"torchrun starts equally many processes on every node, and %d does not divide %d devices", each, devices)})
	}
	var script bytes.Buffer
	comment := []string{"Written by psim export megatron from " + c.Name() + "."}
	if err := p.command.WriteScript(&script, comment, devices, each); err != nil {
		return nil, err
	}
	if err := p.readBack(ctx, script.Bytes()); err != nil {
		return nil, err
	}
	_, err = w.Write(script.Bytes())
	return p.followed(), err
}

// A trainerPlan is a configuration as another program trains by it.
type trainerPlan struct {
	config     *configs.Config
	experiment *configs.Experiment
	said       map[string]any // by section and key, with everything that keys which are not given stand for
	command    *launch.Command
	changes    []string
	format     string // what psim export calls the program
	program    string // what its makers call it
}

// unsayable returns the error about a key.
func (p *trainerPlan) unsayable(u *launch.Unsayable) error {
	return &configs.Error{Label: p.config.Name(), Key: u.Key, Problem: "export " + p.format + ": " + u.Problem}
}

// devices returns how many there are.
func (p *trainerPlan) devices() int {
	parallel, shape := p.config.Parallel, p.experiment.Graph.Shape
	return shape.Ranks * max(1, shape.Replicas) * max(1, parallel.Tensor) * max(1, parallel.Context)
}

// planMegatron makes the command of a configuration.
func planMegatron(ctx context.Context, c *configs.Config) (*trainerPlan, error) {
	p := &trainerPlan{config: c, format: "megatron", program: "Megatron-LM"}
	return p, p.order(ctx)
}

// order makes the command of Megatron-LM.
func (p *trainerPlan) order(ctx context.Context) error {
	if !p.config.Defined("model") {
		return p.unsayable(&launch.Unsayable{Key: "model", Problem: "is missing: " + p.program + " trains a network"})
	}
	if err := p.whole(); err != nil {
		return err
	}
	if stack := p.config.Train.Stack; stack != "megatron-te" && stack != "megatron-2023" {
		if err := p.change("train.stack=megatron-te", "what is not given is as in Megatron-LM with "+
			"Transformer Engine"); err != nil {
			return err
		}
	}
	if p.config.Train.Optimizer == "adam" {
		if err := p.change("train.optimizer=adamw", "adam is AdamW in Megatron-LM"); err != nil {
			return err
		}
	}
	serial := p.config.Parallel.Zero == 1 && !p.config.Parallel.Overlap
	if serial && p.config.Parallel.OverlapGather && !p.config.Defined("parallel.overlap_gather") {
		if err := p.change("parallel.overlap_gather=false", "Megatron-LM overlaps gathers only where it overlaps "+
			"the sums of gradients"); err != nil {
			return err
		}
	}
	if err := p.build(ctx); err != nil {
		return err
	}
	if err := p.cut(ctx); err != nil {
		return err
	}
	if graphs := p.experiment.Machine.Host.Graphs; graphs != "" && graphs != "none" {
		p.changes = append(p.changes, fmt.Sprintf("left aside: machine.host.graphs = %q; set "+
			"Megatron-LM's --cuda-graph-impl in the script", graphs))
	}
	said, err := p.say(p.config, p.experiment)
	if err != nil {
		return err
	}
	p.said = said
	if p.command, err = launch.NewCommand(p.said); err != nil {
		return p.named(err)
	}
	return nil
}

// change sets a key, and notes why.
func (p *trainerPlan) change(set, why string) (err error) {
	if p.config, err = p.config.With(set); err == nil {
		p.changes = append(p.changes, reason(set, why, ""))
	}
	return err
}

// build builds the configuration.
func (p *trainerPlan) build(ctx context.Context) (err error) {
	p.experiment, err = p.config.BuildFor(ctx, configs.BuildOptions{Folded: true, Brief: true})
	return err
}

// cut takes Megatron-LM's own cut, equal numbers of blocks, where no other is asked for and the blocks divide.
func (p *trainerPlan) cut(ctx context.Context) error {
	_, blocks, _ := p.experiment.Network.Ends()
	stages := p.experiment.Graph.Shape.Stages()
	if stages < 2 || p.config.Defined("schedule.partition") || p.config.Defined("schedule.first_blocks") ||
		p.config.Defined("schedule.last_blocks") || blocks%stages != 0 {
		return nil
	}
	err := p.change("schedule.partition=blocks", "stages have equal numbers of blocks")
	if err != nil {
		return err
	}
	return p.build(ctx)
}

// say returns what a configuration says, with everything that keys which are not given stand for.
func (p *trainerPlan) say(c *configs.Config, e *configs.Experiment) (map[string]any, error) {
	model, err := c.ReadModel()
	if err == nil {
		model, err = model.Resolved()
	}
	if err != nil {
		return nil, err
	}
	if c.Defined("data.lengths") {
		return nil, p.unsayable(&launch.Unsayable{Key: "data.lengths", Problem: "the data of the script decide how " +
			"long samples are; leave it out"})
	}
	shape := e.Graph.Shape
	if e.Staged == nil || len(e.Staged.Sizes) != 1 || e.Staged.Shards != nil {
		return nil, p.unsayable(&launch.Unsayable{Key: "batch", Problem: p.program + "'s microbatches are of one size"})
	}
	object := c.Object()
	said := map[string]any{
		"model": setting.Object(model, nil), "batch": map[string]any{
			"micro": int(e.Staged.Sizes[0]), "global": int(e.Samples),
		},
	}
	said["memory"] = held(c, shape)
	train := setting.Object(c.Train.Options.Resolved(), nil)
	train["stack"] = c.Train.Stack
	parallel, _ := object["parallel"].(map[string]any)
	schedule, _ := object["schedule"].(map[string]any)
	said["train"], said["parallel"], said["schedule"] = train, parallel, schedule
	schedule["name"], schedule["stages"] = e.Graph.Name, shape.Ranks
	schedule["virtual_stages"], schedule["microbatches"] = max(1, shape.Virtual), shape.Microbatches
	if parallel["data"] = max(1, shape.Replicas); shape.Ranks == 1 {
		schedule["name"] = "ddp"
	}
	if schedule["group"] == nil && shape.Virtual > 1 {
		schedule["group"] = shape.Ranks
	}
	if rule := c.Schedule.Partition.Rule; rule != "blocks" && c.Schedule.FirstBlocks+c.Schedule.LastBlocks == 0 &&
		shape.Ranks > 1 {
		schedule["partition"] = e.Staged.Layers
	} else {
		delete(schedule, "partition")
	}
	p.forget(said)
	return said, nil
}

// forget removes keys that have no effect, so that they need no argument, and fills in those that others stand for.
func (p *trainerPlan) forget(said map[string]any) {
	parallel, train := said["parallel"].(map[string]any), said["train"].(map[string]any)
	model := said["model"].(map[string]any)
	number := func(table map[string]any, key string) int {
		switch n := table[key].(type) {
		case int:
			return n
		case float64:
			return int(n)
		}
		return 0
	}
	tensor, context, expert := number(parallel, "tensor"), number(parallel, "context"), number(parallel, "expert")
	without := func(table map[string]any, idle bool, keys ...string) {
		for _, key := range keys {
			if idle {
				delete(table, key)
			}
		}
	}
	without(parallel, tensor < 2, "sequence", "tensor_overlap")
	without(parallel, context < 2, "context_method")
	without(parallel, number(parallel, "zero_group") == number(parallel, "data"), "zero_group")
	without(parallel, number(parallel, "data")*max(1, context) < 2, "overlap", "overlap_gather", "bucket",
		"gather_updated", "reduce_scatter", "collectives")
	without(parallel, expert < 2, "dispatcher", "dispatch", "expert_overlap", "delay_weights")
	without(train, train["recompute"] != "full", "recompute_layers", "recompute_method")
	if number(model, "experts") == 0 {
		without(parallel, true, "expert", "expert_tensor")
	} else if number(parallel, "expert_tensor") == 0 {
		parallel["expert_tensor"] = max(1, tensor)
		if expert > 1 {
			parallel["expert_tensor"] = 1
		}
	}
}

// PatchMegatron changes a user's script of Megatron-LM, and the files that it sources, so that it trains by one plan
// and not by another. The changed script is read back. Logs among the files stay out.
func PatchMegatron(
	ctx context.Context, plans [2]*configs.Config, files []launch.Input, o launch.Options,
) (*launch.Patch, error) {
	from, err := planMegatron(ctx, plans[0])
	if err != nil {
		return nil, err
	}
	to, err := planMegatron(ctx, plans[1])
	if err != nil {
		return nil, err
	}
	patch, err := launch.NewPatch(files, o, from.command.All(), to.command.All())
	if err != nil {
		return nil, err
	}
	said, _, err := to.read(ctx, launch.Patched(files, patch), o)
	if err != nil {
		return nil, err
	}
	for section, table := range to.said {
		for key, value := range table.(map[string]any) {
			was, wanted := fmt.Sprint(from.said[section].(map[string]any)[key]), fmt.Sprint(value)
			if is := fmt.Sprint(said[section].(map[string]any)[key]); was != wanted && is != wanted {
				return nil, fmt.Errorf("the changed script has %s.%s = %s, not %s", section, key, is, wanted)
			}
		}
	}
	return patch, nil
}

// readBack reads a script that was written, and compares what it says with the configuration.
func (p *trainerPlan) readBack(ctx context.Context, script []byte) error {
	said, e, err := p.read(ctx, []launch.Input{{Label: p.config.Name() + "'s script", Data: script}}, launch.Options{})
	if err != nil {
		return err
	}
	return p.compare(said, e)
}

// read reads a script, for the machine of the configuration.
func (p *trainerPlan) read(
	ctx context.Context, files []launch.Input, o launch.Options,
) (map[string]any, *configs.Experiment, error) {
	read, err := launch.Read(files, o)
	if err != nil {
		return nil, nil, fmt.Errorf("export %s: %w", p.format, err)
	}
	object, config := p.config.Object(), read.Config
	config["machine"] = object["machine"]
	if busiest := p.config.Model.Imbalance; busiest > 0 { // which the data decides
		config["model"].(map[string]any)["imbalance"] = busiest
	}
	var text bytes.Buffer
	if err := configs.WriteObject(&text, nil, config); err != nil {
		return nil, nil, err
	}
	c, err := configs.Parse(files[0].Label, text.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("export %s: %w", p.format, err)
	}
	e, err := c.BuildFor(ctx, configs.BuildOptions{Folded: true, Brief: true})
	if err != nil {
		return nil, nil, fmt.Errorf("export %s: %w", p.format, err)
	}
	said, err := p.say(c, e)
	return said, e, err
}

// orNone names a value that may not be there.
func orNone(text string) string {
	if text == "<nil>" {
		return "none"
	}
	return text
}

// compare reports the first key that a script says otherwise, and how to set it and all others as the script has them.
func (p *trainerPlan) compare(script map[string]any, e *configs.Experiment) error {
	mine, its := p.experiment, e
	one, two := mine.Network, its.Network
	one.Name, two.Name = "", ""
	same := reflect.DeepEqual(one, two)
	var first *launch.Unsayable
	var sets []string
	for _, section := range slices.Sorted(maps.Keys(p.said)) {
		if section == "model" && same {
			continue // however its keys are given
		}
		wanted, got := p.said[section].(map[string]any), script[section].(map[string]any)
		keys := maps.Clone(wanted)
		maps.Copy(keys, got)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			a, b, name := fmt.Sprint(wanted[key]), fmt.Sprint(got[key]), section+"."+key
			if a == b || name == "schedule.partition" || p.assumed(name, a, b) {
				continue
			}
			if first == nil {
				first = &launch.Unsayable{Key: name, Problem: fmt.Sprintf(
					"%s has %s here, not %s", p.program, orNone(b), orNone(a))}
			}
			switch {
			case got[key] != nil:
				sets = append(sets, "set "+name+" = "+b)
			case p.config.Defined(name):
				sets = append(sets, "leave out "+name)
			}
		}
	}
	if first != nil {
		if len(sets) > 0 {
			first.Problem += "; to follow it, " + strings.Join(sets, ", ")
		}
		return p.unsayable(first)
	}
	switch {
	case !same:
		return p.unsayable(&launch.Unsayable{Key: "model", Problem: p.program + " has no such layers"})
	case !slices.Equal(mine.Staged.Layers, its.Staged.Layers):
		return p.unsayable(&launch.Unsayable{Key: "schedule.partition", Problem: fmt.Sprintf(
			"%s cuts the layers into %v, not %v", p.program, its.Staged.Layers, mine.Staged.Layers)})
	}
	return nil
}
