// Package understood holds what psim understood of the files that a training is started with, or that it wrote.
package understood

import (
	"strings"
)

// A Mapping is an argument of a program that became a key of a configuration.
type Mapping struct {
	From  string `json:"from"`  // the argument
	To    string `json:"to"`    // the key
	Value any    `json:"value"` // of the key
}

// Ignored is an argument that no key stands for.
type Ignored struct {
	From   string `json:"from"`
	Reason string `json:"reason"`
}

// A Question asks for what the files do not say.
type Question struct {
	Key string `json:"key"`
	Ask string `json:"ask"` // what to write
}

// An Import is what was understood.
type Import struct {
	Format  string         `json:"format"`  // of the arguments
	Version string         `json:"version"` // of the program, whose arguments are known
	Config  map[string]any `json:"config"`  // by section and key, as in a file
	Mapped  []Mapping      `json:"mapped"`
	Ignored []Ignored      `json:"ignored"` // what may change time or memory, and what psim does not know
	Unknown int            `json:"unknown"` // how many of the ignored are in no table of psim's
	Idle    int            `json:"idle"`    // arguments without effect on the time or memory of a step
	Missing []Question     `json:"missing,omitempty"`
	// EachNode is the number of devices of a node by what starts the program; 0 if that does not say it.
	EachNode int `json:"devices_per_node,omitempty"`
	// Differences lists what the script says otherwise than the log.
	Differences []Difference `json:"differences,omitempty"`
	Measured    *LoggedSteps `json:"measured,omitempty"`
	// Only lists the values of keys that files of this kind can be told, where the program offers more; none for a key
	// that they cannot be told at all.
	Only map[string][]string `json:"-"`
}

// A Difference is an argument that a script and a log, or two files, say differently.
type Difference struct {
	From   string `json:"from"`
	Script string `json:"script"`
	Log    string `json:"log"`
}

// An Input is a file, with the label that names it in messages.
type Input struct {
	Label string
	Data  []byte
}

// Options are what the user says in addition.
type Options struct {
	// Devices is the number of devices, where the files do not say it; 0 if it is not given.
	Devices int
	// DevicesPerNode is the number of devices of a node; 0 if it is not given.
	DevicesPerNode int
	// Launched and LaunchedEach are the numbers of devices, and of a node's, by the launcher of a script; 0 if it does
	// not say them.
	Launched, LaunchedEach int
	// Arguments are those of the script, from $1 on.
	Arguments []string
}

// MostScript limits a script or a configuration, in bytes, and MostSize the sizes in it, so that their products are
// whole numbers.
const (
	MostScript = 1 << 20
	MostSize   = 1 << 40
)

// What a table says of an argument's effect on a step, if it is not what it may change.
const (
	EffectMapped = "mapped"
	EffectNone   = "none"
)

// UnknownReason is why an argument is ignored that is in no table.
const UnknownReason = "unknown to psim"

// Set gives a key a value, for arguments.
func (i *Import) Set(key string, value any, from ...string) {
	table, name := i.Config, key
	for {
		section, rest, ok := strings.Cut(name, ".")
		if !ok {
			break
		}
		inner, ok := table[section].(map[string]any)
		if !ok {
			inner = map[string]any{}
			table[section] = inner
		}
		table, name = inner, rest
	}
	table[name] = value
	i.Mapped = append(i.Mapped, Mapping{From: strings.Join(from, ", "), To: key, Value: value})
}

// Ask asks for a key.
func (i *Import) Ask(key, ask string) { i.Missing = append(i.Missing, Question{key, ask}) }

// Leave says why an argument has no key.
func (i *Import) Leave(from, reason string) { i.Ignored = append(i.Ignored, Ignored{from, reason}) }

// Unsayable is the error about a key that a program has no argument for.
type Unsayable struct {
	Key     string
	Problem string // and what would be right
}

// Error names the key.
func (u *Unsayable) Error() string { return u.Key + ": " + u.Problem }
