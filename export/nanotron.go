package export

import (
	"context"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"psim/configs"
	"psim/internal/units"
	"psim/launch/keyed"
)

// WriteNanotron writes the YAML of nanotron that trains by a configuration. It is read back: a key that nanotron cannot
// follow is an error that names it. It returns what the program follows in its place.
func WriteNanotron(ctx context.Context, w io.Writer, c *configs.Config) (done *Followed, err error) {
	p := &trainerPlan{config: c, format: "nanotron", program: "nanotron"}
	follow := [][2]string{{"train.stack=nanotron", "what is not given is as in nanotron"}}
	on, err := c.With("train.stack=nanotron") // a plan that is assumed is another one for another stack
	if err != nil {
		return nil, err
	}
	own := c.Train.MasterWeights == "none" && c.Train.Precision != "fp32"
	if own {
		follow = append(follow, [2]string{"memory.gradient_copies=false", "gradients are summed where they are"})
	}
	if (own || on.Parallel.Zero == 0) && on.Parallel.Data*max(1, on.Parallel.Context) > 1 {
		if !c.Defined("parallel.bucket") {
			follow = append(follow, [2]string{
				"parallel.bucket=25MiB", "gradients are summed in DDP's buckets of 25 MiB",
			})
		}
		if !c.Defined("parallel.overlap") {
			follow = append(follow, [2]string{"parallel.overlap=true", "gradients are summed during the backward"})
		}
	}
	if !own && c.Train.Precision != "fp32" && !c.Defined("train.gradients") {
		follow = append(follow, [2]string{"train.gradients=fp32", "gradients are added up in fp32"})
	}
	if err := p.begin(ctx, follow); err != nil {
		return nil, err
	}
	object, err := keyed.NanotronConfig(p.said)
	if err != nil {
		return nil, p.named(err)
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := p.readBack(ctx, text); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(w, "# Written by psim export nanotron from %s, for nanotron as of %s, on %s.\n"+
		"# Yours: general, data_stages (these are made-up tokens), tokenizer, checkpoints, the learning rate,\n"+
		"# tokens.train_steps.\n%s", c.Name(),
		keyed.NanotronVersion, units.Plural(p.devices(), "device"), text)
	return p.followed(), err
}
