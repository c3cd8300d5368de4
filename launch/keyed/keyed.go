package keyed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"psim/launch/understood"
)

// A reader makes a configuration of a file, which others belong to.
type reader func(understood.Input, []understood.Input, understood.Options) (*understood.Import, error)

// Reader returns what reads a file, with the others that are given; nil for one that is of no program here.
func Reader(f *understood.Input, files []understood.Input) reader {
	ofTrainer := func(f understood.Input) bool { return isTrainer(f.Data) || isAccelerate(f.Data) }
	switch {
	case f == nil:
		return nil
	case ofTrainer(*f), object(f.Data) != nil && slices.ContainsFunc(files, ofTrainer):
		return together(readTrainer)
	case isDeepSpeed(f.Data), broken(*f):
		return together(readDeepSpeed)
	case isNanotron(f.Data):
		return together(readNanotron)
	case isTitan(f.Data):
		return together(readTitan)
	}
	return nil
}

// broken reports whether a file of JSON holds no object.
func broken(f understood.Input) bool {
	return strings.HasSuffix(f.Label, ".json") && object(f.Data) == nil
}

// together refuses files that do not belong together, before they are read.
func together(read reader) reader {
	return func(f understood.Input, files []understood.Input, o understood.Options) (*understood.Import, error) {
		network, first := "", ""
		for _, one := range files {
			program := ""
			switch {
			case IsNetwork(one.Data) && network != "":
				return nil, fmt.Errorf("%s: is a second network, after %s; name one of them", one.Label, network)
			case IsNetwork(one.Data):
				network = one.Label
			case broken(one):
				return nil, fmt.Errorf("%s: is not an object of JSON of at most %d kB; is it whole?", one.Label,
					understood.MostScript>>10)
			default:
				program = programOf(one.Data)
			}
			if first = cmp.Or(first, program); program != "" && program != first {
				return nil, fmt.Errorf("%s: is of %s, and another file is of %s; name the files of one", one.Label,
					program, first)
			}
		}
		return read(f, files, o)
	}
}

// programOf returns whose configuration a file is; "" for other files.
func programOf(data []byte) string {
	switch {
	case isNanotron(data):
		return "nanotron"
	case isTitan(data):
		return "torchtitan"
	case isTrainer(data) || isAccelerate(data) || isDeepSpeed(data):
		return "transformers' Trainer or DeepSpeed"
	}
	return ""
}

// Alike reports whether two files are configurations of the same form, so that a run has only one of them.
func Alike(a, b understood.Input) bool {
	for _, is := range []func([]byte) bool{isTrainer, isAccelerate, isDeepSpeed, isNanotron, isTitan} {
		if is(a.Data) || is(b.Data) {
			return is(a.Data) && is(b.Data)
		}
	}
	return false
}

// Differences lists the keys that two files of the same form give different values.
func Differences(script, log understood.Input) (list []understood.Difference) {
	said, ran := &file{keys: map[string]any{}}, &file{keys: map[string]any{}}
	if said.decode(script) != nil || ran.decode(log) != nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(said.keys)) {
		is, known := ran.keys[key]
		says := said.keys[key]
		if known && fmt.Sprint(is) != fmt.Sprint(says) && says != nil && says != "auto" {
			list = append(list, understood.Difference{From: key, Script: shown(says), Log: shown(is)})
		}
	}
	return list
}

// Keys returns the keys of a file in JSON or YAML, those of sections with dots.
func Keys(f understood.Input) (map[string]any, error) {
	k := &file{reading: &reading{}, label: f.Label, keys: map[string]any{}}
	err := k.decode(f)
	return k.keys, err
}

// Readable reports whether a file is one that is read here.
func Readable(data []byte) bool { return Reader(&understood.Input{Data: data}, nil) != nil }
