package launch

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"psim/launch/keyed"
	"psim/launch/understood"
)

// deepest limits what scripts, functions and strings may hold in each other.
const deepest = 16

// readScript reads a launch script, or the YAML of a functional test of Megatron-LM.
func readScript(f Input, files []Input, o Options) (*arguments, error) {
	if len(f.Data) > understood.MostScript {
		return nil, fmt.Errorf("%s: has %d kB and no arguments as Megatron prints them; psim reads scripts of at most "+
			"%d kB", f.Label, len(f.Data)>>10, understood.MostScript>>10)
	}
	if tooDeep(f.Data) {
		return nil, fmt.Errorf("%s: has more than %d open brackets, which no script has", f.Label, deepestWords)
	}
	a := &arguments{label: f.Label, values: map[string]string{}, given: map[string]string{}}
	if known, err := readYAML(f, a); known || err != nil {
		return a, err
	}
	if err := keyed.Broken(f); err != nil {
		return nil, err
	}
	s := newShell(f, files, a)
	s.positional(o.Arguments)
	for _, header := range batchLine.FindAllSubmatch(f.Data, -1) {
		s.launcher(strings.Fields(string(header[1])))
	}
	if err := s.read(f); err != nil {
		return nil, err
	}
	if values := s.words(); len(s.starts) == 0 && keyed.IsSubmission(values) {
		a.keyed = keyed.Submission(values)
		return a, nil
	}
	switch len(s.starts) {
	case 0:
		return nil, trainsNothing(f, a)
	case 1:
	default:
		a.notes = append(a.notes, fmt.Sprintf("%d commands start a training; the last one is read", len(s.starts)))
	}
	words := s.starts[len(s.starts)-1]
	if a.keyed = commandOf(words); a.keyed != nil {
		a.words = words
		return a, nil
	}
	for _, word := range words {
		if other := otherPrograms.FindString(word); strings.HasSuffix(word, ".py") && other != "" {
			a.notes = append(a.notes, fmt.Sprintf("%s is read as if it trained a GPT", word))
		}
	}
	megatron().parse(ofProgram(words), a)
	return a, nil
}

// commandOf returns what reads a command line of another program than Megatron-LM; nil if there is none.
func commandOf(words []string) keyedCommand {
	switch {
	case keyed.IsTitan(words):
		return keyed.Command
	case keyed.IsTrainer(words):
		return keyed.TrainerCommand
	}
	return nil
}

// trainsNothing says that a script starts no training, and what may stand in its place.
func trainsNothing(f Input, a *arguments) error {
	if startsTrainer.Match(f.Data) {
		return fmt.Errorf("%s: starts a program of transformers or DeepSpeed where psim cannot follow it; name its "+
			"TrainingArguments (per_device_train_batch_size: 8) in a file, with the network: psim import args.yaml "+
			"config.json --devices N%s", f.Label, leftOut(a.notes))
	}
	return fmt.Errorf("%s: starts no training that psim knows: no command has --num-layers, --module and "+
		"--config of torchtitan.train, or --per_device_train_batch_size of transformers' Trainer; psim reads %s%s",
		f.Label, readable, leftOut(a.notes))
}

// startsTrainer finds what starts transformers' Trainer or DeepSpeed.
var startsTrainer = regexp.MustCompile(`accelerate\s+launch|per.device.train.batch.size|(?m:^\s*deepspeed\s)`)

// readable lists what psim reads.
const readable = "launch scripts and model_config.yaml of Megatron-LM, logs that print its arguments, " +
	"torchtitan's TOML with [model] and [parallelism], DeepSpeed's JSON with a batch or zero_optimization, " +
	"TrainingArguments with per_device_train_batch_size or output_dir, accelerate's file with distributed_type, and " +
	"nanotron's YAML with parallelism and model_config, and Megatron-Bridge's with model.num_layers and train, and " +
	"config_*.sh of MLPerf's language models with MINIBS and DGXNNODES"

// ofProgram returns the words that follow the program; those before are a launcher's.
func ofProgram(words []string) []string {
	for i, word := range words {
		if strings.HasSuffix(word, ".py") && !strings.HasPrefix(word, "-") {
			return words[i+1:]
		}
	}
	return words
}

// otherPrograms are programs of Megatron-LM that train or serve something else.
var otherPrograms = regexp.MustCompile(`bert|t5|vlm|ict|retro|vision|server|inference|generat|mamba`)

// leftOut says what of a script was not read.
func leftOut(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return "; " + notes[0]
}

// deepestWords limits the brackets that are open at once, since the parser calls itself for each.
const deepestWords = 500

// tooDeep reports whether more brackets are open than scripts have.
func tooDeep(data []byte) bool {
	open, most := 0, 0
	for _, c := range data {
		switch c {
		case '(', '{', '`':
			open++
		case ')', '}', '\n':
			if c == '\n' && open < deepestWords/2 {
				open = max(0, open-1) // what is never closed, as in a comment
				continue
			}
			open = max(0, open-1)
		}
		most = max(most, open)
	}
	return most > deepestWords
}

// batchLine is a line in which sbatch finds flags.
var batchLine = regexp.MustCompile(`(?m)^#SBATCH\s+(.*)$`)

// readYAML reads MODEL_ARGS of a model_config.yaml.
func readYAML(f Input, a *arguments) (known bool, err error) {
	if !bytes.Contains(f.Data, []byte("MODEL_ARGS:")) {
		return false, nil
	}
	var config struct {
		Arguments yaml.Node `yaml:"MODEL_ARGS"`
	}
	if err := yaml.Unmarshal(f.Data, &config); err != nil {
		return true, fmt.Errorf("%s: %s", f.Label, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	list := config.Arguments.Content
	for i := 0; i+1 < len(list); i += 2 { // of a key that is there twice the last value counts, as in Python
		switch flag, value := list[i].Value, list[i+1].Value; strings.ToLower(value) {
		case "true", "yes", "on":
			megatron().set(a, flag, nil)
		case "false", "no", "off", "null", "":
		default:
			megatron().set(a, flag, strings.Fields(value))
		}
	}
	return true, nil
}
