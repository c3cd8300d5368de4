package link

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"psim/internal/nearest"
)

// Options is a link by name, link = "pcie4", or in place, [machine.link].
// Keys that come after a name change that link; what they say of collectives goes
// before what was measured of it, so that its tables are dropped.
type Options struct {
	Name string
	keys map[string]any
}

// Given reports whether the options name or describe a link.
func (o Options) Given() bool { return o.Name != "" || o.keys != nil }

// UnmarshalTOML reads a name or a table, over what is there.
func (o *Options) UnmarshalTOML(value any) error {
	switch v := value.(type) {
	case string:
		*o = Options{Name: v}
		return nil
	case map[string]any:
		if err := new(Link).fill(v); err != nil {
			return err
		}
		keys := maps.Clone(o.keys)
		if keys == nil {
			keys = map[string]any{}
		}
		maps.Copy(keys, v)
		o.keys = keys
		return nil
	}
	return errors.New(`a link is a name (psim list devices), or a table with bandwidth = "25GB/s" and latency = "5us"`)
}

// Link puts a link together from those that are known by name; without options
// there is none. Errors begin with the key.
func (o Options) Link(known []Link, key string) (Link, error) {
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
			return Link{}, fmt.Errorf("%s = %q: not in the catalog%s (psim list devices)", key, o.Name, nearest.Suggest(o.Name, names))
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
	if l.Bandwidth <= 0 {
		return l, fmt.Errorf(`%s: bandwidth is missing or zero; write for example bandwidth = "25GB/s"`, key)
	}
	return l, nil
}

// A key of a TOML table reads its value.
type key struct {
	name string
	read func(value any) error
}

// text is a key whose value reads itself.
func text(name string, into interface{ UnmarshalText([]byte) error }) key {
	return key{name, func(v any) error {
		if err := into.UnmarshalText(fmt.Append(nil, v)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}}
}

// read reads a table in the order of its keys, so that of two mistakes the same
// one is always the first. what is described by the keys: a link or a range.
func read(table map[string]any, what string, keys []key) error {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("%s: unknown key of a %s%s (use one of %s)", name, what, nearest.Suggest(name, names), strings.Join(names, ", "))
		}
		if err := keys[i].read(table[name]); err != nil {
			return err
		}
	}
	return nil
}

// fill sets the keys of a link.
func (l *Link) fill(table map[string]any) error {
	keys := []key{
		text("bandwidth", &l.Bandwidth), text("latency", &l.Latency),
		text("collective_bandwidth", &l.Collective), text("collective_call", &l.Call),
		{"shared", func(v any) error {
			if l.Shared = fmt.Sprint(v); l.Shared != "device" && l.Shared != "node" {
				return fmt.Errorf("shared: unknown value %q; use device or node", l.Shared)
			}
			return nil
		}},
		{"algorithm", func(v any) error {
			l.Algorithm = fmt.Sprint(v)
			if all := Algorithms(); !slices.Contains(all, l.Algorithm) {
				return fmt.Errorf("algorithm: unknown algorithm %q%s (use one of %s)", l.Algorithm, nearest.Suggest(l.Algorithm, all), strings.Join(all, ", "))
			}
			return nil
		}},
	}
	for _, t := range l.Tables() {
		keys = append(keys, key{t.Key, func(v any) error {
			ranges, err := readRanges(t.Key, v)
			if err == nil {
				l.SetTable(t.Kind, ranges)
			}
			return err
		}})
	}
	return read(table, "link", keys)
}

// readRanges reads the value of a link's key for a table: a list of TOML tables.
func readRanges(key string, value any) ([]Range, error) {
	var tables []map[string]any
	switch v := value.(type) {
	case []map[string]any:
		tables = v
	case []any:
		for _, entry := range v {
			table, ok := entry.(map[string]any)
			if !ok {
				return nil, errors.New(key + ": must be a list of tables")
			}
			tables = append(tables, table)
		}
	default:
		return nil, errors.New(key + `: must be a list of tables; write for example [{ranks = 8, from = "0B", call = "70us", bandwidth = "220GB/s"}]`)
	}
	var list []Range
	for i, table := range tables {
		var r Range
		if err := r.fill(table); err != nil {
			return nil, fmt.Errorf("%s[%d].%w", key, i, err)
		}
		list = append(list, r)
	}
	return list, checkRanges(key, list)
}

// fill sets the keys of a range.
func (r *Range) fill(table map[string]any) error {
	return read(table, "range", []key{
		{"ranks", func(v any) error {
			n, ok := v.(int64)
			if r.Ranks = int(n); !ok || n != int64(r.Ranks) {
				return fmt.Errorf("ranks = %v: must be an integer", v)
			}
			return nil
		}},
		text("from", &r.From), text("call", &r.Call), text("bandwidth", &r.Bandwidth),
	})
}

// checkRanges refuses a table that is no function of ranks and bytes.
func checkRanges(key string, list []Range) error {
	for i, r := range list {
		at := fmt.Sprintf("%s[%d].", key, i)
		switch {
		case r.Ranks < 2:
			return fmt.Errorf("%sranks = %d: must be at least 2", at, r.Ranks)
		case r.Bandwidth <= 0:
			return errors.New(at + `bandwidth is missing or zero; write for example bandwidth = "200GB/s"`)
		}
		switch of := rangesOf(list[:i], r.Ranks); {
		case of == nil:
		case list[i-1].Ranks != r.Ranks:
			return fmt.Errorf("%sranks = %d: ranges of one number of ranks must stand together", at, r.Ranks)
		case list[i-1].From >= r.From:
			return fmt.Errorf("%sfrom: ranges of %d ranks must be in the order of their sizes, each from a larger one than the range before", at, r.Ranks)
		}
	}
	return nil
}
