package keyed

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"psim/launch/understood"
)

// trainerFlag is a flag that programs with TrainingArguments are given, and hardly any other.
const trainerFlag = "--per_device_train_batch_size"

// IsTrainer reports whether a command starts a program whose flags may be TrainingArguments.
func IsTrainer(words []string) bool {
	first := path.Base(words[0])
	return first == "deepspeed" || isTRL(words) || slices.ContainsFunc(words, func(w string) bool {
		if isAccelerateProgram(w) {
			return true
		}
		flag, _, _ := strings.Cut(w, "=")
		return strings.ReplaceAll(flag, "-", "_") == strings.ReplaceAll(trainerFlag, "-", "_")
	})
}

// isTRL reports whether trl's own program is started.
func isTRL(words []string) bool { return path.Base(words[0]) == "trl" && len(words) > 1 }

// TrainerCommand reads a command that IsTrainer, with the files that it names and the network's config.json. Its flags
// are keys of TrainingArguments, those of accelerate launch keys of accelerate's file.
func TrainerCommand(f understood.Input, words []string, files []understood.Input, o understood.Options) (
	*understood.Import, error,
) {
	launcher, program := atProgram(words)
	c := trainerCommand{label: f.Label, rest: slices.DeleteFunc(slices.Clone(files), func(other understood.Input) bool {
		return other.Label == f.Label
	})}
	arguments := c.flags(program)
	for _, key := range []string{"model_type", "architectures"} { // by which a network's file is known
		delete(arguments, key)
	}
	if arguments["distributed_type"] != nil {
		return nil, fmt.Errorf("%s: --distributed_type: is a key of accelerate's file, not of TrainingArguments; "+
			"leave it out", c.label)
	}
	ofTRL := map[string]any{}
	if isTRL(words) {
		ofTRL = launcherKeys(arguments)
	}
	if err := c.named(arguments); err != nil {
		return nil, err
	}
	if _, err := c.add(isTrainer, arguments, "config"); err != nil {
		return nil, err
	}
	devices := cmp.Or(o.Devices, o.Launched)
	at, keys := slices.IndexFunc(launcher, isAccelerateProgram), map[string]any{}
	switch {
	case isTRL(words):
		keys = launchKeys(ofTRL)
	case at >= 0:
		flags := c.flags(launcher[at+1:])
		if err := c.oneKind(flags); err != nil {
			return nil, err
		}
		keys = launchKeys(flags)
	}
	if len(keys) > 0 {
		keys, err := c.add(isAccelerate, keys, "config_file")
		if err != nil {
			return nil, err
		}
		if keys["num_processes"] != nil { // a header of sbatch says how many devices there are, not how many train
			devices = o.Devices
		}
	}
	o.Devices = devices
	return together(readTrainer)(c.rest[0], c.rest, o)
}

// launcherKeys takes accelerate's keys out of trl's.
func launcherKeys(arguments map[string]any) map[string]any {
	keys := map[string]any{}
	for key, as := range map[string]string{
		"accelerate_config": "config_file", "num_processes": "num_processes", "num_machines": "num_machines",
	} {
		if value := arguments[key]; value != nil {
			keys[as] = value
			delete(arguments, key)
		}
	}
	return keys
}

// named takes the TrainingArguments among the files, where flags name no file and give none.
func (c *trainerCommand) named(flags map[string]any) error {
	given := func(key string) bool { return flags[key] != nil }
	if given("config") || slices.ContainsFunc(trainerKeys, given) {
		return nil
	}
	at := slices.IndexFunc(c.rest, func(f understood.Input) bool { return isTrainer(f.Data) && !IsNetwork(f.Data) })
	if at < 0 {
		return fmt.Errorf("%s: starts a program that is given no TrainingArguments, such as "+
			"--per_device_train_batch_size; if it has some, write them into a file and name it as well: "+
			"psim import %s args.yaml config.json", c.label, path.Base(c.label))
	}
	flags["config"] = c.rest[at].Label
	return nil
}

// atProgram divides a command at its program: a file, or a module of Python's.
func atProgram(words []string) (launcher, program []string) {
	if isTRL(words) { // whose flags accelerate's are among
		return nil, words[2:]
	}
	for i, w := range words {
		switch {
		case strings.HasSuffix(w, ".py") && !strings.HasPrefix(w, "-"):
			return words[:i], words[i+1:]
		case (w == "-m" || w == "--module") && i+1 < len(words) && !isLauncher(words[i+1]):
			return words[:i], words[i+2:]
		}
	}
	return nil, words
}

// isLauncher reports whether a module of Python starts others.
func isLauncher(module string) bool {
	return isAccelerateProgram(module) || strings.HasPrefix(module, "torch.distributed.")
}

// isAccelerateProgram reports whether a word is accelerate's program or module.
func isAccelerateProgram(w string) bool {
	return path.Base(w) == "accelerate" || strings.HasPrefix(w, "accelerate.commands")
}

// A trainerCommand is a command with the files of its run, those that flags were joined to first.
type trainerCommand struct {
	label string
	rest  []understood.Input
}

// add puts a file made of flags before the others. They replace the keys of the file that one of them names. It
// returns all keys.
func (c *trainerCommand) add(
	is func([]byte) bool, flags map[string]any, naming string,
) (keys map[string]any, err error) {
	label := c.label
	keys = map[string]any{}
	if name, ok := flags[naming].(string); ok {
		delete(flags, naming)
		at := slices.IndexFunc(c.rest, func(f understood.Input) bool { return path.Base(f.Label) == path.Base(name) })
		if at < 0 {
			return nil, fmt.Errorf("%s: --%s %s: name that file as well", c.label, naming, name)
		}
		if keys, err = decoded(c.rest[at].Data); err != nil {
			return nil, notYAML(c.rest[at].Label, err)
		}
		if !is(c.rest[at].Data) {
			return nil, fmt.Errorf("%s: --%s %s: is not such a file", c.label, naming, name)
		}
		label = c.rest[at].Label
		c.rest = slices.Delete(c.rest, at, at+1)
	}
	if len(flags) > 0 && len(keys) > 0 {
		label = c.label + " and " + label
	}
	for _, key := range slices.Sorted(maps.Keys(flags)) { // a section before what is in it
		section, inner, nested := strings.Cut(key, ".")
		table, there := keys[section].(map[string]any)
		switch {
		case !nested:
			keys[key] = flags[key]
		case there:
			table[inner] = flags[key]
		case flags[section] != nil:
			return nil, fmt.Errorf("%s: --%s: goes not with --%s, which names a file; give one of them", c.label, key,
				section)
		default:
			keys[section] = map[string]any{inner: flags[key]}
		}
	}
	data, err := json.Marshal(keys)
	if err != nil { // of numbers that JSON has not
		return nil, fmt.Errorf("%s: %w", label, err)
	}
	c.rest = append([]understood.Input{{Label: label, Data: data}}, c.rest...)
	return keys, nil
}

// flags reads the flags of a command line as HfArgumentParser does: a switch needs no value, and a switch that is on
// by itself has one with no_ before it.
func (c *trainerCommand) flags(words []string) map[string]any {
	keys := map[string]any{}
	for i := 0; i < len(words); {
		name, value, joined := strings.Cut(words[i], "=")
		i++
		if !strings.HasPrefix(name, "--") {
			continue
		}
		var values []string
		if joined {
			values = []string{value}
		}
		for ; !joined && i < len(words) && !strings.HasPrefix(words[i], "--"); i++ {
			values = append(values, words[i])
		}
		key := strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")
		switch off, negated := strings.CutPrefix(key, "no_"); {
		case len(values) == 0 && negated && off != "cuda": // no_cuda is a key
			keys[off] = false
		case len(values) == 0:
			keys[key] = true
		case len(values) == 1:
			keys[key] = valueOfFlag(values[0])
		case key == "fsdp": // names of ways to shard, which are one text
			keys[key] = strings.Join(values, " ")
		default:
			keys[key] = values
		}
	}
	return keys
}

// valueOfFlag returns a word as a number, a switch, an object of JSON, or itself.
func valueOfFlag(word string) any {
	var table map[string]any
	if strings.HasPrefix(word, "{") && json.Unmarshal([]byte(word), &table) == nil {
		return table
	}
	switch strings.ToLower(word) { // as HfArgumentParser takes switches
	case "true", "yes", "t", "y":
		return true
	case "false", "no", "f", "n":
		return false
	}
	if x, ok := plain(word).(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
		return word // which no key takes
	}
	return plain(word)
}

// launchKinds are switches of accelerate launch, with what its file calls them.
var launchKinds = map[string]string{"use_fsdp": "FSDP", "use_deepspeed": "DEEPSPEED", "multi_gpu": "MULTI_GPU"}

// oneKind refuses two ways of training at once, as accelerate does.
func (c *trainerCommand) oneKind(flags map[string]any) error {
	var given []string
	for _, flag := range slices.Sorted(maps.Keys(launchKinds)) {
		if flags[flag] == true {
			given = append(given, "--"+flag)
		}
	}
	if len(given) > 1 {
		return fmt.Errorf("%s: %s: accelerate launch takes one of them", c.label, strings.Join(given, " "))
	}
	return nil
}

// launchKeys names the flags of accelerate launch as its file does.
func launchKeys(flags map[string]any) map[string]any {
	sections := map[string]string{
		"fsdp_": "fsdp_config", "parallelism_config_": "parallelism_config", "fp8_": "fp8_config",
		"dynamo_": "dynamo_config", "zero": "deepspeed_config", "offload_": "deepspeed_config",
		"deepspeed_": "deepspeed_config", "gradient_": "deepspeed_config",
	}
	keys := map[string]any{}
	for flag, value := range flags {
		begins := func(prefix string) bool { return strings.HasPrefix(flag, prefix) }
		section := ""
		for _, prefix := range slices.Sorted(maps.Keys(sections)) {
			if begins(prefix) {
				section = sections[prefix] + "."
			}
		}
		kind, switches := launchKinds[flag]
		switch {
		case !switches:
			keys[section+flag] = value
		case value == true:
			keys["distributed_type"] = kind
		}
	}
	if n := keys["num_processes"]; n != nil && keys["distributed_type"] == nil && keys["config_file"] == nil {
		keys["distributed_type"] = "MULTI_GPU"
		if n == int64(1) {
			keys["distributed_type"] = "NO"
		}
	}
	return keys
}
