package export

import (
	"context"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"psim/configs"
	"psim/internal/units"
	"psim/launch"
)

// WriteNemo writes the run_config.yaml of NeMo's Megatron-Bridge that trains by a configuration. It is read back: a key
// that Megatron-Bridge cannot follow is an error that names it. It returns what the program follows in its place.
func WriteNemo(ctx context.Context, w io.Writer, c *configs.Config) (done *Followed, err error) {
	p := &trainerPlan{config: c, format: "nemo", program: "Megatron-Bridge"}
	if c.Train.Stack == "megatron-2023" {
		err := p.change("train.stack=megatron-te", "Megatron-Bridge trains with Transformer Engine")
		if err != nil {
			return nil, err
		}
	}
	if err := p.order(ctx); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(p.command.BridgeConfig())
	if err != nil {
		return nil, err
	}
	said, e, err := p.read(ctx, []launch.Input{{Label: c.Name() + "'s run_config.yaml", Data: text}},
		launch.Options{Devices: p.devices()})
	if err != nil {
		return nil, err
	}
	if err := p.compare(said, e); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(w, "# Written by psim export nemo from %s, for Megatron-Bridge %s, on %s.\n"+
		"# Yours: dataset, tokenizer, scheduler, the learning rate, train.train_iters, checkpoint.\n%s", c.Name(),
		launch.BridgeVersion, units.Plural(p.devices(), "device"), text)
	return p.followed(), err
}
