// Package launch reads what training programs are started with, and what they print: logs and launch
// scripts become configurations. Nothing that it reads is ever run.
package launch

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"psim/launch/keyed"
	"psim/launch/logged"
	"psim/launch/understood"
)

// What was understood, and of what.
type (
	Import      = understood.Import
	Question    = understood.Question
	LoggedSteps = understood.LoggedSteps
	LoggedPlan  = understood.LoggedPlan
	Input       = understood.Input
	Options     = understood.Options
	Difference  = understood.Difference
	Unsayable   = understood.Unsayable
)

// MostBytes limits a file. A log of a month has 50 MB.
const MostBytes = 256 << 20

// Read reads a log, a script, or both: what a log prints is what ran, and a script is compared with it. A
// script may read further files, which are given as well.
func Read(files []Input, o Options) (*Import, error) {
	log, script, err := sorted(files)
	if err != nil {
		return nil, err
	}
	if log != nil && !isMegatron(log.Data) {
		return readLogged(*log, logged.Read(log.Data), files, o)
	}
	if i, err := readOther(log, script, files, o); i != nil || err != nil {
		return i, err
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
	if written != nil && written.keyed != nil {
		return readCommand(*script, written, files, o)
	}
	if script == nil && len(o.Arguments) > 0 {
		return nil, fmt.Errorf("--arg %s: is for a script, and none of the files is one", o.Arguments[0])
	}
	ran := cmp.Or(printed, written)
	switch {
	case ran == nil && log == nil:
		return nil, fmt.Errorf("%s: is a network, which psim run reads; name what trains it", files[0].Label)
	case ran == nil:
		return nil, fmt.Errorf("%s: prints no arguments; name the script that started it as well", log.Label)
	}
	i, err := mapped(ran, o)
	if err != nil {
		return nil, err
	}
	if written != nil {
		i.EachNode, i.Differences = written.nodes.each, written.compared(printed)
	}
	if log != nil {
		i.Measured = measure(log.Data, ran)
	}
	leaveBeside(i, files, func(f Input) bool {
		return log != nil && f.Label == log.Label || written != nil && written.reads(f)
	})
	return i, nil
}

// leaveBeside names the files that are not read.
func leaveBeside(i *Import, files []Input, read func(Input) bool) {
	for _, f := range files {
		if !read(f) {
			i.Leave(f.Label, "is not read: the script does not name it as a file of bash")
		}
	}
}

// readOther reads a file of another program than Megatron-LM; nil where there is none.
func readOther(log, script *Input, files []Input, o Options) (*Import, error) {
	read := keyed.Reader(script, files)
	switch {
	case script == nil:
		return nil, nil
	case log != nil && read != nil:
		return nil, fmt.Errorf("%s: is a log of Megatron-LM, and %s is not its script", log.Label, script.Label)
	case read != nil:
		i, err := read(*script, files, o)
		if err == nil {
			leaveUnread(i, files, script)
		}
		return i, err
	case log == nil:
		return readBridge(*script, o)
	}
	return nil, nil
}

// leaveUnread names the files that no reader of keys knows, and that no file names.
func leaveUnread(i *Import, files []Input, script *Input) {
	for _, f := range files {
		named := slices.ContainsFunc(files, func(by Input) bool {
			return bytes.Contains(by.Data, []byte(path.Base(f.Label)))
		})
		if f.Label != script.Label && !named && !keyed.IsNetwork(f.Data) && !keyed.Readable(f.Data) {
			i.Leave(f.Label, "is not read: psim knows no such file of this program")
		}
	}
}

// readCommand reads a script that starts another program, by flags that are keys.
func readCommand(f Input, a *arguments, files []Input, o Options) (*Import, error) {
	o.Launched, o.LaunchedEach = a.nodes.devices(), a.nodes.each
	i, err := a.keyed(f, a.words, files, o)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, leftOut(a.notes))
	}
	for _, note := range a.notes {
		i.Leave(f.Label, note)
	}
	leaveBeside(i, files, func(other Input) bool {
		return a.reads(other) || keyed.IsNetwork(other.Data) || keyed.Readable(other.Data)
	})
	return i, nil
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
		case keyed.Readable(f.Data) || keyed.IsNetwork(f.Data):
			if script == nil && !keyed.IsNetwork(f.Data) {
				script = f
			}
		case logged.Lacks(f.Data) != "":
			return nil, nil, fmt.Errorf("%s: has no line that says how long a step took: %s", f.Label,
				logged.Lacks(f.Data))
		case keyed.IsNetwork(f.Data):
		case script == nil, keyed.Readable(script.Data) && isTrainerScript(*f): // which names the other file
			script = f
		}
	}
	if log != nil {
		err = OneRun(*log)
	}
	return log, script, err
}

// isTrainerScript reports whether a file is a script of bash that starts transformers' Trainer.
func isTrainerScript(f Input) bool {
	return (strings.HasSuffix(f.Label, ".sh") || bytes.HasPrefix(f.Data, []byte("#!"))) && startsTrainer.Match(f.Data)
}

// compared lists what a script gives otherwise than a log prints, which may be nil.
func (a *arguments) compared(log *arguments) (list []understood.Difference) {
	if log == nil {
		return nil
	}
	for name := range a.given {
		is, known := log.values[name]
		if says := a.values[name]; known && !same(is, says) {
			list = append(list, understood.Difference{From: name, Script: says, Log: is})
		}
	}
	slices.SortFunc(list, func(x, y understood.Difference) int { return strings.Compare(x.From, y.From) })
	return list
}
