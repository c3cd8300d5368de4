// Package launch reads what training programs are started with, and what they print: logs and launch
// scripts become configurations. Nothing that it reads is ever run.
package launch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
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
	// Differences lists what the script says otherwise than the log.
	Differences []Difference `json:"differences,omitempty"`
	Measured    *LoggedSteps `json:"measured,omitempty"`
}

// A Difference is an argument that a script and a log, or two files, say differently.
type Difference struct {
	From   string `json:"from"`
	Script string `json:"script"`
	Log    string `json:"log"`
}

// An Input is a log or a script, with the label that names it in messages.
type Input struct {
	Label string
	Data  []byte
}

// MostBytes limits a file. A log of a month has 50 MB.
const MostBytes = 256 << 20

// Options are what the user says in addition.
type Options struct {
	// Devices is the number of devices, where the files do not say it; 0 if it is not given.
	Devices int
	// Arguments are those of the script, from $1 on.
	Arguments []string
}

// Read reads a log, a script, or both: what a log prints is what ran, and a script is compared with it. A
// script may read further files, which are given as well.
func Read(files []Input, o Options) (*Import, error) {
	log, script, err := sorted(files)
	if err != nil {
		return nil, err
	}
	if read := reader(script); read != nil {
		if log != nil {
			return nil, fmt.Errorf("%s: is a log of Megatron-LM, and %s is not its script", log.Label, script.Label)
		}
		return read(*script, files, o)
	}
	var printed, written *arguments
	if log != nil {
		if printed, err = readDump(*log); err != nil {
			return nil, err
		}
	}
	if script != nil {
		if written, err = readScript(*script, files, o); err != nil {
			return nil, err
		}
	}
	if script == nil && len(o.Arguments) > 0 {
		return nil, fmt.Errorf("--arg %s: is for a script, and none of the files is one", o.Arguments[0])
	}
	ran := cmp.Or(printed, written)
	if ran == nil && log == nil {
		return nil, fmt.Errorf("%s: is a network, which psim run reads; name what trains it", files[0].Label)
	}
	if ran == nil {
		return nil, fmt.Errorf("%s: prints no arguments; name the script that started it as well", log.Label)
	}
	i, err := mapped(ran, o)
	if err != nil {
		return nil, err
	}
	if printed != nil && written != nil {
		i.Differences = compared(written, printed)
	}
	if log != nil {
		i.Measured = measure(log.Data, ran)
	}
	return i, nil
}

// reader returns what reads a file of another program than Megatron-LM; nil for other files.
func reader(f *Input) func(Input, []Input, Options) (*Import, error) {
	switch {
	case f == nil:
		return nil
	case isDeepSpeed(f.Data):
		return readDeepSpeed
	case isTitan(f.Data):
		return readTitan
	}
	return nil
}

// sorted returns the log among files, and the first script; the others are what it sources. Each may be nil.
func sorted(files []Input) (log, script *Input, err error) {
	for i := range files {
		f := &files[i]
		switch {
		case len(f.Data) > MostBytes:
			return nil, nil, fmt.Errorf("%s: has %d MB; psim reads logs and scripts of at most %d MB", f.Label,
				len(f.Data)>>20, MostBytes>>20)
		case bytes.IndexByte(f.Data, 0) >= 0:
			return nil, nil, fmt.Errorf("%s: is not text; name a log or a launch script", f.Label)
		case isLog(f.Data) && log != nil:
			return nil, nil, fmt.Errorf("%s: is a second log, after %s; name one of them", f.Label, log.Label)
		case isLog(f.Data):
			log = f
		case script == nil && !isNetwork(f.Data):
			script = f
		}
	}
	return log, script, nil
}

// compared lists what a script gives otherwise than a log prints.
func compared(script, log *arguments) (list []Difference) {
	for name := range script.given {
		is, known := log.values[name]
		if says := script.values[name]; known && !same(is, says) {
			list = append(list, Difference{From: name, Script: says, Log: is})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.From, b.From) })
	return list
}
