package link

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"psim/internal/nearest"
	"psim/internal/setting"
)

// Options is a link by name, link = "pcie4", or in place, [machine.link].
// Keys that come after a name change that link; what they say of collectives goes
// before what was measured of it, so that its tables are dropped.
type Options struct {
	Name string
	keys map[string]any
}

// UnmarshalTOML reads a name or a table, over what is there.
func (o *Options) UnmarshalTOML(value any) error {
	switch v := value.(type) {
	case string:
		*o = Options{Name: v}
		return nil
	case map[string]any:
		keys := map[string]any{}
		maps.Copy(keys, o.keys)
		maps.Copy(keys, v)
		o.keys = keys // even where one is out of range: a later table may replace it
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

// Over returns the options with the name of a link that they change, unless they name or
// describe one: what has no bandwidth is no link, and so must be meant as a change.
func (o Options) Over(name string) Options {
	if !o.Describes() {
		o.Name = name
	}
	return o
}

// Describes reports whether the options say which link there is, by name or in place.
func (o Options) Describes() bool { return o.Name != "" || o.keys["bandwidth"] != nil }

// Named reports whether the options are a name alone.
func (o Options) Named() bool { return o.Name != "" && o.keys == nil }

// Link puts a link together from those that are known by name, with its speedup; without
// options there is none. Errors begin with the key.
func (o Options) Link(known []Link, key string) (Link, error) {
	l, err := o.AsGiven(known, key)
	if err == nil && l.Speedup > 0 {
		l = l.Share(l.Speedup).ShareTables(l.Speedup)
	}
	return l, err
}

// AsGiven is Link but for its speedup, which it has as a key alone.
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
			return l, fmt.Errorf("%s = %q: not in the catalog%s (psim list devices)", key, o.Name, nearest.Suggest(o.Name, names))
		}
		l = known[i]
	}
	for _, key := range []string{"latency", "collective_bandwidth", "collective_call", "algorithm"} {
		if _, given := o.keys[key]; given {
			l = l.WithoutTables()
		}
	}
	if err := l.fill(o.keys); err != nil {
		return l, err
	}
	if err := setting.Validate(l); err != nil {
		return l, fmt.Errorf("%s: %w", key, err)
	}
	if key == "link" && l.Measured != nil {
		return l, errors.New("link: measured: is of nodes; a link joins devices of one: write it into [machine.network], or all_reduce with ranks here")
	}
	return l, nil
}
