package export

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"psim/configs"
	"psim/launch"
	"psim/launch/keyed"
)

// TrainerFiles are the two files with which transformers' Trainer trains, as YAML.
type TrainerFiles struct {
	Arguments []byte // TrainingArguments, for HfArgumentParser
	Launcher  []byte // for accelerate launch --config_file
}

// Accelerate returns the files with which transformers' Trainer trains by a configuration. They are read back: a key
// that the Trainer cannot follow is an error that names it. It also returns what the Trainer follows
// in its place.
func Accelerate(ctx context.Context, c *configs.Config) (files TrainerFiles, done *Followed, err error) {
	p := &trainerPlan{config: c, format: "accelerate", program: "transformers' Trainer"}
	if err := p.begin(ctx, trainerFollows(c)); err != nil {
		return files, nil, err
	}
	arguments, launcher, err := keyed.TrainerFiles(p.said)
	if err != nil {
		return files, nil, p.named(err)
	}
	if each := p.experiment.Machine.DevicesPerNode; each > 0 && p.devices() > each && p.devices()%each == 0 {
		launcher["num_machines"] = p.devices() / each
	}
	comment := "# Written by psim export accelerate from " + c.Name() + ", for " + keyed.TrainerVersion + ".\n"
	if files.Arguments, err = yaml.Marshal(arguments); err != nil {
		return files, nil, err
	}
	if files.Launcher, err = yaml.Marshal(launcher); err != nil {
		return files, nil, err
	}
	files.Arguments = append([]byte(comment), files.Arguments...)
	files.Launcher = append([]byte(comment), files.Launcher...)
	if err := p.readTrainer(ctx, files); err != nil {
		return files, nil, err
	}
	p.changes = append(p.changes, "the network and the length of a sample are your script's")
	return files, p.followed(), nil
}

// trainerFollows lists the keys that have one value in the Trainer.
func trainerFollows(c *configs.Config) (follow [][2]string) {
	add := func(set, why string) { follow = append(follow, [2]string{set, why}) }
	half := c.Train.Precision != "" && c.Train.Precision != "fp32"
	add("train.stack=hf-trainer", "what is not given is as in transformers' Trainer")
	switch zero := c.Parallel.Zero; {
	case zero == 3:
		add(fmt.Sprintf("memory.fp32_shards=%t", half), "FSDP keeps shards in fp32")
		add("parallel.gather=copied", "FSDP 2 copies what it gathers")
		if c.Microbatches() > 1 {
			add("parallel.sum_once=true", "the Trainer sums gradients once a step")
		}
	case zero == 2:
		add("parallel.overlap_gather=true", "parameters are gathered during the forward")
	case zero == 0 && half:
		add("train.gradients=fp32", "gradients are those of fp32 weights")
	}
	if c.Parallel.Zero == 0 && c.Parallel.Data > 1 {
		if !c.Defined("parallel.collectives") {
			add("parallel.collectives=nccl", "processes of GPUs exchange by NCCL")
		}
		if !c.Defined("parallel.bucket") {
			add("parallel.bucket=25MiB", "gradients are summed in DDP's buckets of 25 MiB")
		}
	}
	switch fused := c.Model.Loss == "fused"; {
	case c.Defined("model.kernels"):
	case fused:
		add("model.kernels=fused", "Liger's kernels run between products")
	default:
		add("model.kernels=eager", "PyTorch's own kernels run between products")
	}
	if half && !c.Defined("model.attention") {
		add("model.attention=flash", "attention is PyTorch's fused kernel (sdpa)")
	}
	if logits := half && c.Model.Loss != "fused"; logits != c.Model.FP32Logits || !c.Defined("model.fp32_logits") {
		add(fmt.Sprintf("model.fp32_logits=%t", logits), "transformers computes the loss of logits in fp32")
	}
	return follow
}

// readTrainer reads the files back, with what the script decides as in the configuration, and compares.
func (p *trainerPlan) readTrainer(ctx context.Context, files TrainerFiles) error {
	name := p.config.Name()
	said, e, err := p.readKeys(ctx, []launch.Input{
		{Label: name + "'s args.yaml", Data: files.Arguments},
		{Label: name + "'s accelerate.yaml", Data: files.Launcher},
		{Label: "config.json", Data: []byte(`{"model_type": "llama"}`)},
	}, launch.Options{})
	if err != nil {
		return err
	}
	return p.compare(said, e)
}

// readKeys reads files of the Trainer's, with what the script decides as in the configuration.
func (p *trainerPlan) readKeys(
	ctx context.Context, files []launch.Input, o launch.Options,
) (map[string]any, *configs.Experiment, error) {
	read, err := launch.Read(files, o)
	if err != nil {
		return nil, nil, fmt.Errorf("export %s: %w", p.format, err)
	}
	object, config := p.config.Object(), read.Config
	config["machine"] = object["machine"]
	model := maps.Clone(object["model"].(map[string]any))
	for _, key := range []string{"kernels", "loss", "fp32_logits", "attention"} {
		delete(model, key)
		if value, ok := config["model"].(map[string]any)[key]; ok {
			model[key] = value
		}
	}
	config["model"] = model
	var b bytes.Buffer
	if err := configs.WriteObject(&b, nil, config); err != nil {
		return nil, nil, err
	}
	c, err := configs.Parse(p.config.Name()+"'s files", b.Bytes())
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

// PatchTrainer changes a user's files of transformers' Trainer, its script and its configurations, so that they train
// by one plan and not by another. The changed files are read back. Logs among the files stay out.
func PatchTrainer(
	ctx context.Context, plans [2]*configs.Config, files []launch.Input, o launch.Options,
) (*launch.Patch, error) {
	var said [2]map[string]any
	var p *trainerPlan
	for i, c := range plans {
		p = &trainerPlan{config: c, format: "accelerate", program: "transformers' Trainer"}
		err := p.build(ctx)
		if err == nil {
			said[i], err = p.say(c, p.experiment)
		}
		if err != nil {
			return nil, err
		}
	}
	others := unlike(said[1], said[0], nil)
	others = slices.DeleteFunc(others, func(key string) bool { return slices.Contains(trainerDecides, key) })
	return launch.NewTrainerPatch(files, said[1], func(files []launch.Input) ([]string, error) {
		read, _, err := p.readKeys(ctx, files, o)
		if err != nil {
			return nil, err
		}
		return unlike(said[1], read, others), nil
	})
}

// trainerDecides are keys that follow from others in the Trainer.
var trainerDecides = []string{
	"memory.fp32_shards", "model.fp32_logits", "parallel.bucket", "parallel.collectives", "parallel.gather",
	"parallel.overlap_gather", "parallel.sum_once", "train.gradients",
}

// unlike lists the keys of a section of one that another has otherwise, of some, or of all.
func unlike(one, another map[string]any, some []string) (keys []string) {
	for section, table := range one {
		other, _ := another[section].(map[string]any)
		for key, value := range table.(map[string]any) {
			name := section + "." + key
			if fmt.Sprint(value) != fmt.Sprint(other[key]) && (some == nil || slices.Contains(some, name)) {
				keys = append(keys, name)
			}
		}
	}
	slices.Sort(keys)
	return keys
}
