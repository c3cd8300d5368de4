package launch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"psim/launch/patches"
)

// A Patch is what to change in a user's files, so that they start another plan.
type Patch = patches.Patch

// ErrNoScript is the error of a patch where no file is a launch script of bash.
var ErrNoScript = errors.New("there is no launch script to change")

// NewPatch changes a script, and the files that it sources, as little as possible, so that the arguments in which two
// plans differ become those of the second. A change is kept only if the script, read once more, comes nearer to what is
// wanted. An error says what could not be reached.
func NewPatch(files []Input, o Options, from, to []Argument) (*Patch, error) {
	scripts := WithoutLogs(files)
	if len(scripts) == 0 || strings.Contains(string(scripts[0].Data), "MODEL_ARGS:") {
		return nil, ErrNoScript
	}
	open, err := patches.Open(scripts)
	if err != nil {
		return nil, err
	}
	e := &editor{Editor: open, options: o}
	before, err := e.values(scripts)
	if err != nil {
		return nil, err
	}
	e.want(before, from, to)
	left, err := e.Climb(func(files []Input) ([]string, error) {
		values, err := e.values(files)
		if err != nil {
			return nil, err
		}
		return e.differ(values), nil
	}, e.candidates)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%s: no change of one flag or variable makes it %s", scripts[0].Label, e.missing(left))
	}
	return e.Patch(), nil
}

// WithoutLogs returns the files without logs.
func WithoutLogs(files []Input) (list []Input) {
	for _, f := range files {
		if !isLog(f.Data) {
			list = append(list, f)
		}
	}
	return list
}

// Patched returns files as a patch leaves them, without logs.
func Patched(files []Input, p *Patch) []Input {
	list := WithoutLogs(files)
	for i, f := range list {
		for _, changed := range p.Files {
			if changed.Label == f.Label {
				list[i] = changed
			}
		}
	}
	return list
}

// An editor changes a script of Megatron-LM.
type editor struct {
	*patches.Editor
	options Options
	wanted  map[string]string // arguments by name, as the script is to give them
}

// values reads the arguments that files give.
func (e *editor) values(files []Input) (map[string]string, error) {
	a, err := readScript(files[0], files, e.options)
	if err != nil {
		return nil, err
	}
	return a.values, nil
}

// want says which arguments the script is to give. Where it says a thing by another flag than psim would, it keeps it.
func (e *editor) want(before map[string]string, from, to []Argument) {
	byName := func(list []Argument) map[string]string {
		m := map[string]string{}
		for _, a := range list {
			m[a.Name] = a.Value
		}
		return m
	}
	first, second := byName(from), byName(to)
	e.wanted = maps.Clone(before)
	for name := range first {
		if _, ok := second[name]; !ok {
			delete(e.wanted, name)
		}
	}
	for name, value := range second {
		if old, ok := first[name]; !ok || old != value {
			e.wanted[name] = value
		}
	}
	const size, number = "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"
	if _, bySize := before[size]; bySize {
		delete(e.wanted, number)
		delete(e.wanted, size)
		layers, _ := strconv.Atoi(second["num_layers"])
		stages, _ := strconv.Atoi(second["pipeline_model_parallel_size"])
		if chunks, _ := strconv.Atoi(second[number]); chunks > 1 && stages > 0 {
			e.wanted[size] = strconv.Itoa(layers / stages / chunks)
		}
	}
	if _, short := before["recompute_activations"]; short {
		if second["recompute_granularity"] == "selective" && second["recompute_modules"] == "" {
			delete(e.wanted, "recompute_granularity")
		} else {
			delete(e.wanted, "recompute_activations")
		}
	}
}

// differ lists the arguments that are not as they are wanted.
func (e *editor) differ(values map[string]string) (names []string) {
	of := func(m map[string]string, name string) string {
		value, ok := m[name]
		if p := megatron().byName[name]; !ok && p != nil {
			value = p.value
		}
		if value == "None" {
			value = ""
		}
		return strings.Join(strings.FieldsFunc(value, punctuation), " ")
	}
	all := maps.Clone(values)
	maps.Copy(all, e.wanted)
	for name := range all {
		if !same(of(values, name), of(e.wanted, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// missing says what the script does not give yet.
func (e *editor) missing(names []string) string {
	var list []string
	for _, name := range names {
		if value, ok := e.wanted[name]; ok {
			list = append(list, strings.Join(Argument{name, value}.words(), " "))
		} else {
			list = append(list, "without "+name)
		}
	}
	return strings.Join(list, ", ")
}

// anchors lists the flags before which others are put, the best first.
func anchors() (list []patches.Flag) {
	for _, name := range []string{
		"tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "global_batch_size",
		"num_layers",
	} {
		list = append(list, megatron().byName[name].flag())
	}
	return list
}

// flag returns the flags of a parameter.
func (p *parameter) flag() patches.Flag {
	f := patches.Flag{Names: slices.Sorted(maps.Keys(p.flags)), List: p.list}
	for _, value := range p.flags {
		f.Bare = value != ""
		break
	}
	return f
}

// candidates lists files with one change each, that may bring the script nearer to what is wanted.
func (e *editor) candidates(names []string) (list [][]patches.Edited) {
	values, err := e.values(patches.Inputs(e.Files))
	if err != nil {
		return nil
	}
	for _, name := range names {
		p := megatron().byName[name]
		if p == nil {
			continue
		}
		var words []string
		if value, ok := e.wanted[name]; ok {
			words = Argument{name, value}.words()
		}
		_, given := values[name]
		if given && len(words) > 1 {
			list = append(list, e.Revalued(p.flag(), strings.Join(words[1:], " "))...)
		}
		if given && len(words) < 2 {
			list = append(list, e.Without(p.flag())...)
		}
		if !given && len(words) > 0 {
			for i, word := range words {
				words[i] = patches.Quoted(word)
			}
			list = append(list, e.Inserted(strings.Join(words, " "), anchors()...)...)
		}
	}
	return list
}
