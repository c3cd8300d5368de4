package link

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"psim/internal/nearest"
	"psim/internal/setting"
)

// Options is a link by name, link = "pcie4", or described in place, [machine.link]. Keys after a
// name change that link. Those about collectives override measured times, so the tables of the
// named link are dropped.
type Options struct {
	Name string
	keys map[string]any
}

// UnmarshalTOML reads a name, or a table whose keys are added to those already read.
func (o *Options) UnmarshalTOML(value any) error {
	switch v := value.(type) {
	case string:
		*o = Options{Name: v}
		return nil
	case map[string]any:
		keys := map[string]any{}
		maps.Copy(keys, o.keys)
		maps.Copy(keys, v)
		o.keys = keys // even if one is out of range, since a later table may replace it
		return new(Link).fill(v)
	}
	return errors.New(`must be a name (psim list devices), or a table with bandwidth = "25GB/s" and latency = "5us"`)
}

// Settings describes the keys of a link in place.
func (Options) Settings() []setting.Setting { return Link{}.Settings() }

// fill sets the keys of a link, and checks its measured collectives.
func (l *Link) fill(table map[string]any) error {
	if errs := setting.Fill(l, table); errs != nil {
		return errs[0]
	}
	for _, t := range l.Tables() {
		if err := t.check(); err != nil {
			return err
		}
	}
	return l.checkMeasured()
}

// Given reports whether the options name or describe a link.
func (o Options) Given() bool { return o.Name != "" || o.keys != nil }

// Over returns the options as changes to a named link, unless they name or describe a link
// themselves: keys without a bandwidth can only be changes.
func (o Options) Over(name string) Options {
	if !o.Describes() {
		o.Name = name
	}
	return o
}

// Describes reports whether the options say which link it is, by name or in place.
func (o Options) Describes() bool { return o.Name != "" || o.keys["bandwidth"] != nil }

// Named reports whether the options are a name alone.
func (o Options) Named() bool { return o.Name != "" && o.keys == nil }

// Link returns the link that the options describe, with its speedup applied. known are the links
// that have names. Without options it returns the zero Link. Errors begin with the key.
func (o Options) Link(known []Link, key string) (Link, error) {
	l, err := o.AsGiven(known, key)
	if err == nil && l.Speedup > 0 {
		l = l.Share(l.Speedup).ShareTables(l.Speedup)
	}
	return l, err
}

// AsGiven is Link without the speedup applied.
func (o Options) AsGiven(known []Link, key string) (Link, error) {
	if !o.Given() {
		return Link{}, nil
	}
	l := Link{Name: "inline"}
	if o.Name != "" {
		var names []string
		for _, k := range known {
			names = append(names, k.Name)
		}
		i := slices.Index(names, o.Name)
		if i < 0 {
			return l, fmt.Errorf("%s = %q: not in the catalog%s (psim list devices)",
				key, o.Name, nearest.Suggest(o.Name, names))
		}
		l = known[i]
	}
	for _, key := range []string{"latency", "collective_bandwidth", "collective_call", "algorithm"} {
		if _, given := o.keys[key]; given {
			l = l.WithoutTables()
		}
	}
	was := l.NCCL
	if err := l.fill(o.keys); err != nil {
		return l, err
	}
	if !l.NCCL.Same(was) {
		l = l.onlyTables(o.keys)
	}
	if err := setting.Validate(l); err != nil {
		return l, fmt.Errorf("%s: %w", key, err)
	}
	return l, o.misplaced(l, key)
}

// onlyTables returns the link with those measured times alone that keys give.
func (l Link) onlyTables(keys map[string]any) Link {
	for _, t := range l.Tables() {
		if _, given := keys[t.Key]; !given {
			l.SetTable(t.Kind, nil)
		}
	}
	return l
}

// misplaced refuses keys of a network inside a node, and the reverse.
func (o Options) misplaced(l Link, key string) error {
	if key == "link" && l.Measured != nil {
		return errors.New("link: measured: is about several nodes, and this link is inside a node: " +
			"write it into [machine.network], or all_reduce with ranks here")
	}
	if key == "link" && l.SHARP {
		return errors.New("link: sharp: is about switches between nodes, and this link is inside a node: " +
			"write it into [machine.network], or nvls_bandwidth here")
	}
	for _, inside := range []string{"nccl", "nvls_bandwidth", "pat_rank"} {
		if _, given := o.keys[inside]; given && key == "network" {
			return fmt.Errorf("network: %s: is of the link inside a node: write it into [machine.link]", inside)
		}
	}
	return nil
}
