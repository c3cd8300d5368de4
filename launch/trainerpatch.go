package launch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"psim/launch/keyed"
	"psim/launch/patches"
)

// NewTrainerPatch changes the files of a run of transformers' Trainer as little as possible: its script, its arguments,
// accelerate's file and DeepSpeed's configuration. The function differ lists the keys of an Import that files do not
// give as said has them, resolved. An error says which of them could not be reached.
func NewTrainerPatch(files []Input, said map[string]any, differ func([]Input) ([]string, error)) (*Patch, error) {
	list := slices.DeleteFunc(WithoutLogs(files), func(f Input) bool { return keyed.IsNetwork(f.Data) })
	open, err := patches.Open(list)
	if err != nil {
		return nil, err
	}
	e := &trainerEditor{Editor: open}
	for _, f := range list {
		e.parts = append(e.parts, keyed.PartOf(f))
	}
	over := func(changed []Input) ([]string, error) { return differ(overlaid(files, changed)) }
	left, err := e.Climb(over, func(names []string) (list [][]patches.Edited) {
		for _, name := range names {
			for _, way := range keyed.TrainerChanges(name, said) {
				list = append(list, e.together(way)...)
			}
		}
		return list
	})
	switch {
	case err != nil:
		return nil, err
	case len(left) > 0:
		section, key, _ := strings.Cut(left[0], ".")
		table, _ := said[section].(map[string]any)
		return nil, fmt.Errorf("%s: no flag or key of these files makes it %s = %v", list[0].Label, left[0], table[key])
	}
	return e.Patch(), nil
}

// overlaid returns files, without logs, with some in place of those of the same label.
func overlaid(files, changed []Input) []Input { return Patched(files, &Patch{Files: changed}) }

// A trainerEditor changes files of a run of transformers' Trainer.
type trainerEditor struct {
	*patches.Editor
	parts []string // what of the Trainer's every file is; "" for a script
}

// mostTogether limits the places of one change that are tried with those of others.
const mostTogether = 6

// together lists files with some changes, made one after another.
func (e *trainerEditor) together(way []keyed.Change) [][]patches.Edited {
	states := [][]patches.Edited{e.Files}
	for _, c := range way {
		var next [][]patches.Edited
		for _, state := range states {
			one := &trainerEditor{&patches.Editor{Files: state}, e.parts}
			made := one.changed(c)
			if made == nil {
				made = [][]patches.Edited{state} // there is nothing to change
			}
			next = append(next, made[:min(mostTogether, len(made))]...)
		}
		states = next[:min(mostTogether*mostTogether, len(next))]
	}
	return states
}

// changed lists files with one change: where the key is given, or else where it may be.
func (e *trainerEditor) changed(c keyed.Change) (list [][]patches.Edited) {
	scripted := c.Part != keyed.EnginePart && slices.Contains(e.parts, "")
	if scripted {
		list = append(e.switched(c), e.flagged(c)...)
	}
	for i, part := range e.parts {
		if value, given := e.Files[i].Value(c.Key); part == c.Part && given && value != "auto" {
			list = append(list, e.keyed(i, c, false)...)
		}
	}
	if len(list) > 0 || c.Otherwise == nil || fmt.Sprint(c.Otherwise) == fmt.Sprint(c.Value) {
		return list
	}
	for i, part := range e.parts {
		if part == c.Part {
			list = append(list, e.keyed(i, c, true)...)
		}
	}
	if scripted {
		words := c.Flag() + " " + patches.Quoted(textOf(c))
		if c.Part == keyed.LauncherPart {
			return append(list, e.After(launcherCommand, words)...)
		}
		list = append(list, e.Inserted(words, argumentFlags...)...)
	}
	return list
}

// keyed lists the files with a change in one of them.
func (e *trainerEditor) keyed(file int, c keyed.Change, put bool) [][]patches.Edited {
	if files := e.Keyed(file, c.Key, c.Value, put); files != nil {
		return [][]patches.Edited{files}
	}
	return nil
}

// launcherCommand is after what accelerate's flags stand, and argumentFlags before what TrainingArguments do.
var (
	launcherCommand = regexp.MustCompile(`accelerate[ \t]+launch|accelerate\.commands\.launch`)
	argumentFlags   = []patches.Flag{
		{Names: []string{"--per_device_train_batch_size"}}, {Names: []string{"--gradient_accumulation_steps"}},
		{Names: []string{"--output_dir"}}, {Names: []string{"--model_name_or_path"}},
	}
)

// textOf returns the word that stands for a value on a command line.
func textOf(c keyed.Change) string {
	if on, isSwitch := c.Value.(bool); isSwitch && c.Part == keyed.ArgumentsPart {
		return map[bool]string{true: "True", false: "False"}[on]
	}
	return fmt.Sprint(c.Value)
}

// flagged lists the scripts in which a flag that is there says the change.
func (e *trainerEditor) flagged(c keyed.Change) (list [][]patches.Edited) {
	flag := patches.Flag{Names: []string{c.Flag()}}
	several, bare := patches.Flag{Names: flag.Names, List: true}, patches.Flag{Names: flag.Names, Bare: true}
	text := textOf(c)
	switch {
	case text == "":
		return slices.Concat(e.Without(several), e.Without(flag))
	case strings.Contains(text, " "): // each a word, or all in quotes
		list = e.Revalued(several, text)
	}
	list = append(list, e.Revalued(flag, text)...)
	if c.Value == false {
		list = append(list, e.Without(bare)...)
	}
	return list
}

// switched lists the scripts in which a switch of accelerate launch that is there becomes another.
func (e *trainerEditor) switched(c keyed.Change) (list [][]patches.Edited) {
	on, off := c.Switch()
	for _, name := range off {
		for _, files := range e.Without(patches.Flag{Names: []string{name}, Bare: true}) {
			list = append(list, (&patches.Editor{Files: files}).After(launcherCommand, on)...)
		}
	}
	return list
}
