package launch

import (
	"fmt"
	"slices"

	"psim/launch/keyed"
	"psim/launch/logged"
	"psim/launch/understood"
)

// readLogged reads a log of another program than Megatron-LM, with the files of its run. What the log prints of its
// configuration is what ran, and a file of the same form is compared with it.
func readLogged(log Input, l *logged.Log, files []Input, o Options) (*Import, error) {
	var rest []Input
	for _, f := range files {
		if f.Label != log.Label {
			rest = append(rest, f)
		}
	}
	printed := Input{Label: log.Label, Data: l.Config}
	var differences []understood.Difference
	at := slices.IndexFunc(rest, func(f Input) bool { return l.Config != nil && keyed.Alike(f, printed) })
	switch {
	case at >= 0:
		differences = keyed.Differences(rest[at], printed)
		rest[at] = printed
	case l.Config != nil && !slices.ContainsFunc(rest, isScript):
		rest = append([]Input{printed}, rest...)
	}
	if !slices.ContainsFunc(rest, func(f Input) bool { return isScript(f) || keyed.Readable(f.Data) }) {
		if l.Mixed {
			return nil, fmt.Errorf("%s: the configuration that it prints cannot be read: is it cut off, or do lines "+
				"of several ranks without [rankN]: mix? name %s as well, or the log of one rank", log.Label,
				configured[l.Steps.Program])
		}
		return nil, fmt.Errorf("%s: prints no arguments; name %s as well", log.Label, configured[l.Steps.Program])
	}
	if o.Devices == 0 && !slices.ContainsFunc(rest, isScript) && !keyed.SaysDevices(rest) {
		if o.Devices = l.Devices; l.Least && l.Devices > 0 {
			l.Steps.Note(fmt.Sprintf("%d devices are taken, by the highest rank that prints; --devices N says it "+
				"where others print elsewhere", l.Devices))
		}
	}
	i, err := Read(rest, o)
	if err != nil {
		return nil, err
	}
	i.Differences = append(differences, i.Differences...)
	i.Measured = l.Steps
	return i, nil
}

// configured says what a program is configured by, in case its log does not print it.
var configured = map[string]string{
	"torchtitan": "its script or its TOML (torchtitan prints its configuration with job.print_config)",
	"deepspeed":  "its JSON, and the config.json of the network",
	"mlperf":     "the script or the configuration of the run",
	"golden":     "the model_config.yaml of the test",
	"trainer": "its TrainingArguments in YAML or JSON (a script that prints them puts them into the log), " +
		"accelerate's file if there is one, and the config.json of the network",
}

// isScript reports whether a file is a launch script, rather than a configuration or a network.
func isScript(f Input) bool {
	return !keyed.Readable(f.Data) && !keyed.IsNetwork(f.Data) && bridgeKeys(f) == nil && Readable(f.Label, f.Data)
}
