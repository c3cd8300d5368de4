package configs

import (
	"sync"

	"psim/configs/catalog"
	"psim/costmodel/training"
	"psim/internal/setting"
)

// Training is the [train] section: how the network is trained, and the stack, whose settings
// are defaults for all sections.
type Training struct {
	training.Options
	Stack string `toml:"stack"` // noStack, or a name of the catalog
}

// noStack names no stack.
const noStack = "none"

// stackNames lists the stacks of the catalog.
var stackNames = sync.OnceValue(func() []string { return catalog.Names("stacks") })

// Settings describes [train].
func (t Training) Settings() []setting.Setting {
	return append(t.Options.Settings(), setting.Setting{
		Key: "stack", Default: noStack, OneOf: append([]string{noStack}, stackNames()...),
		Text: "the program that trains: it stands for settings (psim list stacks -v), " +
			"which keys that are given replace",
	})
}
