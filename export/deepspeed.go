package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"psim/configs"
	"psim/launch"
	"psim/launch/keyed"
)

// ofScript are the keys of [train] that DeepSpeed's script decides.
var ofScript = []string{
	"stack", "recompute", "recompute_layers", "recompute_method", "stop_early", "selective", "detect_anomaly", "frozen",
	"adapter",
}

// WriteDeepSpeed writes the JSON of DeepSpeed that trains by a configuration. It is read back: a key that DeepSpeed
// cannot follow is an error that names it. What DeepSpeed's script decides stays out of it. It returns what the
// program follows in its place.
func WriteDeepSpeed(ctx context.Context, w io.Writer, c *configs.Config) (done *Followed, err error) {
	p := &trainerPlan{config: c, format: "deepspeed", program: "DeepSpeed"}
	if !c.Defined("model") {
		return nil, p.unsayable(&launch.Unsayable{Key: "model", Problem: "is missing: DeepSpeed trains a network"})
	}
	if p.config.Train.Optimizer == "adam" {
		if err := p.change("train.optimizer=adamw", "adam is AdamW in DeepSpeed"); err != nil {
			return nil, err
		}
	}
	if zero := c.Parallel.Zero; (zero == 1 || zero == 2) && !c.Defined("parallel.bucket") {
		err := p.change("parallel.bucket=500000000 gradients", "gradients are summed in DeepSpeed's buckets")
		if err != nil {
			return nil, err
		}
	}
	if err := p.build(ctx); err != nil {
		return nil, err
	}
	if p.said, err = p.say(p.config, p.experiment); err != nil {
		return nil, err
	}
	object, err := keyed.DeepSpeedConfig(p.said)
	var unsayable *launch.Unsayable
	if errors.As(err, &unsayable) {
		return nil, p.unsayable(unsayable)
	}
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := p.readDeepSpeed(ctx, text); err != nil {
		return nil, err
	}
	p.changes = append(p.changes, "the network, what of it is trained and by which adapter, the length of a sample, "+
		"recomputation and kernels are your script's")
	_, err = fmt.Fprintf(w, "%s\n", text)
	return p.followed(), err
}

// readDeepSpeed reads the JSON back, with what its script decides as in the configuration, and compares.
func (p *trainerPlan) readDeepSpeed(ctx context.Context, text []byte) error {
	read, err := launch.Read([]launch.Input{
		{Label: p.config.Name() + "'s JSON", Data: text},
		{Label: "config.json", Data: []byte(`{"model_type": "llama"}`)},
	}, launch.Options{Devices: p.devices()})
	if err != nil {
		return fmt.Errorf("export deepspeed: %w", err)
	}
	object, config := p.config.Object(), read.Config
	config["machine"], config["model"] = object["machine"], object["model"]
	if train, ok := object["train"].(map[string]any); ok {
		train = maps.Clone(train)
		maps.DeleteFunc(train, func(key string, _ any) bool { return !slices.Contains(ofScript, key) })
		maps.Copy(train, config["train"].(map[string]any))
		config["train"] = train
	}
	var b bytes.Buffer
	if err := configs.WriteObject(&b, nil, config); err != nil {
		return err
	}
	c, err := configs.Parse(p.config.Name()+"'s JSON", b.Bytes())
	if err != nil {
		return fmt.Errorf("export deepspeed: %w", err)
	}
	e, err := c.BuildFor(ctx, configs.BuildOptions{Folded: true, Brief: true})
	if err != nil {
		return fmt.Errorf("export deepspeed: %w", err)
	}
	said, err := p.say(c, e)
	if err != nil {
		return err
	}
	return p.compare(said, e)
}
