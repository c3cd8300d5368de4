package keyed

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/launch/understood"
)

var (
	//go:embed torchtitan_command.csv
	titanCommandCSV string
	//go:embed torchtitan_configs.csv
	titanConfigsCSV string
)

// titanCommandVersion is the version whose command lines are read: its keys and the functions that its modules
// register as configurations.
const titanCommandVersion = "0.3.0 (torchtitan/config/configs.py, models/*/config_registry.py)"

// titanChoice is a word that chooses one of several kinds of a section.
var titanChoice = regexp.MustCompile(`^([a-z][a-z-]*):([a-z][a-z-]*)$`)

// IsTitan reports whether a command trains by torchtitan's command line.
func IsTitan(words []string) bool {
	with := func(flag string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
	}
	program := func(w string) bool { return strings.HasPrefix(w, "torchtitan.") || strings.Contains(w, "torchtitan/") }
	return with("--module") && with("--config") && slices.ContainsFunc(words, program)
}

// Command reads a command line that IsTitan, with the config.json of its network where psim does not know it.
func Command(f understood.Input, words []string, files []understood.Input, o understood.Options) (
	*understood.Import, error,
) {
	o.Devices = cmp.Or(o.Devices, o.Launched)
	file, err := begin("torchtitan", titanCommandVersion).open(f, titanCommandCSV)
	if err != nil {
		return nil, err
	}
	k := &titan{file: file, graphs: true}
	k.EachNode = o.LaunchedEach
	k.parse(words)
	if err := k.registered(files); err != nil {
		return nil, err
	}
	if module, _ := k.keys["module"].(string); !strings.HasPrefix(k.config, module+"_") {
		k.refuseKey("module", "has no configuration "+k.config)
	}
	return k.read(files, o)
}

// parse reads flags: --section.key value, --section.no-key, and section:kind.
func (k *titan) parse(words []string) {
	at := slices.IndexFunc(words, func(w string) bool { return w == "--module" || strings.HasPrefix(w, "--module=") })
	for i := at; i < len(words); i++ {
		if choice := titanChoice.FindStringSubmatch(words[i]); choice != nil {
			k.keys[strings.ReplaceAll(choice[1], "-", "_")+".mode"] = choice[2]
			continue
		}
		name, value, joined := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "--") {
			continue
		}
		key := strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")
		next := i + 1
		switch {
		case joined:
		case next < len(words) && !strings.HasPrefix(words[next], "--") && !titanChoice.MatchString(words[next]):
			i, value = next, words[next]
		default:
			value = "true"
			if section, last, ok := strings.Cut(key, "."); ok && strings.HasPrefix(last, "no_") {
				key, value = section+"."+last[len("no_"):], "false"
			}
		}
		k.keys[key] = plain(value)
	}
	k.config, _ = k.keys["config"].(string)
}

// plain returns a word as a number, a switch, or itself.
func plain(word string) any {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n
	}
	if x, err := strconv.ParseFloat(word, 64); err == nil {
		return x
	}
	switch word {
	case "True", "true":
		return true
	case "False", "false":
		return false
	case "None":
		return nil
	}
	return word
}

// registered takes what torchtitan's configuration has where no flag changes it.
func (k *titan) registered(files []understood.Input) error {
	rows, err := csv.NewReader(strings.NewReader(titanConfigsCSV)).ReadAll()
	if err != nil {
		return err
	}
	var known []string
	for _, row := range rows[1:] {
		if known = append(known, row[0]); row[0] != k.config {
			continue
		}
		k.preset = row[1]
		k.layers, _ = strconv.Atoi(row[2])
		for word := range strings.FieldsSeq(row[3]) {
			key, value, _ := strings.Cut(word, "=")
			k.assume(key, plain(value))
		}
		k.assume("activation_checkpoint.mode", "selective")
		k.assume("activation_checkpoint.selective_ac_option", "op")
		k.assume("training.disable_cuda_graphs", false)
		return nil
	}
	return fmt.Errorf("%s: --config %s: psim does not know what it sets; it knows %s", k.label, k.config,
		strings.Join(known, ", "))
}

// assume gives a key its value of the configuration, if no flag does.
func (k *titan) assume(key string, value any) {
	if _, given := k.keys[key]; !given {
		k.keys[key] = value
		k.assumed = append(k.assumed, key)
	}
}

// newer maps what version 0.3 has in addition: graphs of kernels, the loss by parts, and moments of 16 bits.
func (k *titan) newer(stages int) {
	const graphs, chunks = "training.disable_cuda_graphs", "loss.num_chunks"
	experts := k.degree("parallelism.expert_parallel_degree")
	switch {
	case k.is(graphs):
	case stages > 1 || experts > 1:
		k.refuseKey(graphs, "torchtitan refuses graphs with pipelines, and with experts on several devices; give "+
			"--training.disable_cuda_graphs")
	default:
		k.aside(graphs, "a graph launches kernels: with --device, --set machine.host.graphs=all says it")
	}
	k.Set("model.loss", "fused", "loss")
	if n := k.whole(chunks, 8); n != 8 {
		k.aside(chunks, "psim's parts are those of Liger's kernel")
	}
	if k.word("optimizer.implementation", "") == "fused_opt_states_bf16" {
		k.Set("train.moments", "bf16", "optimizer.implementation")
	}
}
