package export

import (
	"context"
	"errors"
	"fmt"

	"psim/configs"
	"psim/launch"
)

// A Followed is a configuration as a program trains by it, and how it differs from the one that was asked for.
type Followed struct {
	Config  *configs.Config
	Changes []string // in words
}

// followed returns what the program trains by.
func (p *trainerPlan) followed() *Followed { return &Followed{p.config, p.changes} }

// begin sets the keys that a program has no other value for, each with why, and takes what the configuration says then.
func (p *trainerPlan) begin(ctx context.Context, follow [][2]string) error {
	if !p.config.Defined("model") {
		return p.unsayable(&launch.Unsayable{Key: "model", Problem: "is missing: " + p.program + " trains a network"})
	}
	if err := p.whole(); err != nil {
		return err
	}
	if p.config.Train.Optimizer == "adam" {
		follow = append(follow, [2]string{"train.optimizer=adamw", "adam is AdamW in " + p.program})
	}
	asked := p.config
	for _, set := range follow {
		if err := p.follow(set[0], set[1]); err != nil {
			return err
		}
	}
	if is, was := p.config.Parallel.Zero, asked.Parallel.Zero; is != was {
		p.changes = append(p.changes, fmt.Sprintf("the plan that is assumed has parallel.zero = %d, not %d, with %s",
			is, was, p.program))
	}
	if err := p.build(ctx); err != nil {
		return err
	}
	said, err := p.say(p.config, p.experiment)
	p.said = said
	return err
}

// whole refuses adapters, which none of these configurations has a key for.
func (p *trainerPlan) whole() error {
	if !p.config.Train.Adapts() {
		return nil
	}
	return p.unsayable(&launch.Unsayable{Key: "train.adapter.kind", Problem: p.program + "'s configuration has no " +
		"adapters: a script adds them, such as one of PEFT"})
}

// named returns the error of a writer of keys with the configuration's name.
func (p *trainerPlan) named(err error) error {
	var unsayable *launch.Unsayable
	if errors.As(err, &unsayable) {
		return p.unsayable(unsayable)
	}
	return err
}
