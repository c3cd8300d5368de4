package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"psim/configs"
	"psim/internal/units"
	"psim/launch"
	"psim/launch/keyed"
)

// titanScript is a launch script: for whom it is, how many devices there are, and the flags.
const titanScript = `#!/bin/bash
# Written by psim export torchtitan from %s.
# For torchtitan %s, on %s. Start it on every node; MASTER_ADDR is the first node.
set -euo pipefail

torchrun --nnodes %d --nproc-per-node %d --rdzv-backend c10d \
  --rdzv-endpoint "${MASTER_ADDR:-localhost}:${MASTER_PORT:-29500}" -m torchtitan.train \
  %s
`

// titanSettings are settings, and why torchtitan has them.
var titanSettings = [][2]string{
	{"train.stack=torchtitan", "what is not given is as in torchtitan"},
	{"train.clip=true", "torchtitan clips gradients by their norm in every step"},
	{"model.loss=fused", "head and loss go through a part of the tokens at a time"},
}

// WriteTorchtitan writes a launch script of torchtitan that trains by a configuration. The script is read back: a key
// that torchtitan has no flag for, or that the script does not say, is an error that names it. It returns what the
// program follows in its place.
func WriteTorchtitan(ctx context.Context, w io.Writer, c *configs.Config) (done *Followed, err error) {
	p := &trainerPlan{config: c, format: "torchtitan", program: "torchtitan"}
	if !c.Defined("model") {
		return nil, p.unsayable(&launch.Unsayable{Key: "model", Problem: "is missing: torchtitan trains a network"})
	}
	if err := p.whole(); err != nil {
		return nil, err
	}
	for _, set := range titanSettings {
		if err := p.follow(set[0], set[1]); err != nil {
			return nil, err
		}
	}
	if err := p.build(ctx); err != nil {
		return nil, err
	}
	if err := p.titanCut(ctx); err != nil {
		return nil, err
	}
	if p.said, err = p.say(p.config, p.experiment); err != nil {
		return nil, err
	}
	words, err := keyed.TitanCommand(p.config.Model.Preset, p.said)
	var unsayable *launch.Unsayable
	if errors.As(err, &unsayable) {
		return nil, p.unsayable(unsayable)
	} else if err != nil {
		return nil, err
	}
	devices := p.devices()
	each := devices
	if n := p.experiment.Machine.DevicesPerNode; n > 0 && n < devices {
		each = n
	}
	if devices%each != 0 {
		return nil, p.unsayable(&launch.Unsayable{Key: "machine.devices_per_node", Problem: fmt.Sprintf(
			"torchrun starts equally many processes on every node, and %d does not divide %d devices", each, devices)})
	}
	on := units.Plural(devices, "device")
	script := fmt.Sprintf(titanScript, c.Name(), keyed.TitanVersion, on, devices/each, each,
		strings.ReplaceAll(strings.Join(words, " "), " --", " \\\n  --"))
	if err := p.readBack(ctx, []byte(script)); err != nil {
		return nil, err
	}
	_, err = io.Copy(w, bytes.NewBufferString(script))
	return p.followed(), err
}

// titanCut takes torchtitan's own cut where no other is asked for.
func (p *trainerPlan) titanCut(ctx context.Context) error {
	stages := p.experiment.Graph.Shape.Stages()
	list := keyed.TitanCut(p.config.Model.Preset, stages)
	if stages < 2 || list == nil || p.config.Defined("schedule.partition") {
		return nil
	}
	text := strings.ReplaceAll(fmt.Sprint(list), " ", ", ")
	if err := p.change("schedule.partition="+text, "stages begin where torchtitan cuts them"); err != nil {
		return err
	}
	return p.build(ctx)
}

// follow sets a key that is not set so already, and notes why.
func (p *trainerPlan) follow(set, why string) error {
	before := p.config.Object()
	after, err := p.config.With(set)
	if err != nil {
		return err
	}
	key, value, _ := strings.Cut(set, "=")
	section, name, _ := strings.Cut(key, ".")
	table, _ := before[section].(map[string]any)
	was := p.config
	if p.config = after; fmt.Sprint(table[name]) != value {
		given := ""
		if was.Defined(key) {
			given = fmt.Sprintf("; the configuration has %v", table[name])
		}
		p.changes = append(p.changes, reason(set, why, given))
	}
	return nil
}

// reason says why a key is set, and to what.
func reason(set, why, given string) string {
	key, value, _ := strings.Cut(set, "=")
	if _, err := strconv.ParseFloat(value, 64); err != nil && value != "true" && value != "false" && value[0] != '[' {
		value = strconv.Quote(value)
	}
	return fmt.Sprintf("%s (%s = %s%s)", why, key, value, given)
}
