package keyed

import (
	"slices"

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
		return readTrainer
	case isDeepSpeed(f.Data):
		return readDeepSpeed
	case isNanotron(f.Data):
		return readNanotron
	case isTitan(f.Data):
		return readTitan
	}
	return nil
}

// Keys returns the keys of a file in JSON or YAML, those of sections with dots.
func Keys(f understood.Input) (map[string]any, error) {
	k := &file{reading: &reading{}, label: f.Label, keys: map[string]any{}}
	err := k.decode(f)
	return k.keys, err
}

// Readable reports whether a file is one that is read here.
func Readable(data []byte) bool { return Reader(&understood.Input{Data: data}, nil) != nil }
