package launch

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A keyed file is the configuration of a program that reads keys of sections: by dotted key, with the values of JSON.
type keyed struct {
	*mapper
	program string
	keys    map[string]any
	effects map[string]string // by key; a section stands for all of its keys that have no row
}

// newKeyed returns what is understood of a file so far: nothing.
func newKeyed(f Input, table string, i *Import) (*keyed, error) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return nil, err
	}
	k := &keyed{
		mapper: &mapper{arguments: &arguments{label: f.Label}, out: i}, program: i.Format, keys: map[string]any{},
		effects: map[string]string{},
	}
	i.Config = map[string]any{}
	for _, row := range rows[1:] {
		k.effects[row[0]] = row[1]
	}
	return k, nil
}

// flatten notes the keys of a table, with its own key before them.
func (k *keyed) flatten(prefix string, table map[string]any) {
	for name, value := range table {
		key := strings.TrimPrefix(prefix+"."+name, ".")
		if inner, ok := value.(map[string]any); ok {
			k.flatten(key, inner)
			continue
		}
		k.keys[key] = value
	}
}

// whole returns the whole number of a key, or otherwise; other values are refused.
func (k *keyed) whole(key string, otherwise int) int {
	switch n := k.keys[key].(type) {
	case nil:
		return otherwise
	case string:
		if n == "auto" {
			return otherwise
		}
	case int64:
		if n > -mostSize && n < mostSize {
			return int(n)
		}
	case float64:
		if n == float64(int(n)) && n > -mostSize && n < mostSize {
			return int(n)
		}
	}
	k.refuseKey(key, fmt.Sprintf("must be a whole number below %d", int64(mostSize)))
	return otherwise
}

// product multiplies numbers of at least 1, up to a bound that nothing reaches.
func product(list ...int) int {
	const most = 1 << 60
	n := 1
	for _, x := range list {
		if x > most/n {
			return most
		}
		n *= x
	}
	return n
}

// degree returns the size of a group, at least 1.
func (k *keyed) degree(key string) int {
	n := k.whole(key, 1)
	if n < 1 {
		k.refuseKey(key, "must be at least 1")
		return 1
	}
	return n
}

// word returns the text of a key, or otherwise.
func (k *keyed) word(key, otherwise string) string {
	switch s := k.keys[key].(type) {
	case nil:
		return otherwise
	case string:
		return s
	}
	return fmt.Sprint(k.keys[key])
}

// real returns the number of a key, or otherwise.
func (k *keyed) real(key string, otherwise float64) float64 {
	switch n := k.keys[key].(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return otherwise
}

// is reports whether a key is true. What is neither true nor false nor left to the trainer is refused.
func (k *keyed) is(key string) bool {
	b, isBool := k.keys[key].(bool)
	if value := k.keys[key]; !isBool && value != nil && value != "auto" {
		k.refuseKey(key, "must be true or false")
	}
	return b
}

// sections refuses values in place of sections.
func (k *keyed) sections() {
	names := slices.Sorted(maps.Keys(k.effects))
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, key+".") })
		if at >= 0 && k.keys[key] != nil {
			k.refuseKey(key, "must be a section with keys of its own, such as "+names[at])
		}
	}
}

// refuseKey says what psim cannot follow.
func (k *keyed) refuseKey(key, reason string) {
	if k.refused == nil {
		k.refused = fmt.Errorf("%s: %s = %s: %s", k.label, key, shown(k.keys[key]), reason)
	}
}

// shown writes a value, a long one in part.
func shown(value any) string {
	text := fmt.Sprint(value)
	if word, ok := value.(string); ok {
		text = strconv.Quote(word)
	}
	return fmt.Sprintf("%.60s", text)
}

// aside says why a key has no key of psim's.
func (k *keyed) aside(key, reason string) {
	from := fmt.Sprintf("%s = %s", key, shown(k.keys[key]))
	k.out.Ignored = append(k.out.Ignored, Ignored{From: from, Reason: reason})
}

// effect returns what a key's table says of it, or of the section that it is in.
func (k *keyed) effect(key string) (effect string, known bool) {
	for name := key; ; {
		if effect, known = k.effects[name]; known {
			return effect, true
		}
		at := strings.LastIndex(name, ".")
		if at < 0 {
			return "", false
		}
		name = name[:at]
	}
}

// rest says what became of all keys.
func (k *keyed) rest() {
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		effect, known := k.effect(key)
		off := k.keys[key] == false || k.keys[key] == nil || k.keys[key] == "" || k.keys[key] == "none"
		switch {
		case !known:
			k.out.Unknown++
			k.out.Ignored = append(k.out.Ignored, Ignored{From: key, Reason: unknownReason})
		case effect == effectMapped:
		case effect == effectNone, off:
			k.out.Idle++
		default:
			k.aside(key, effect)
		}
	}
	slices.SortStableFunc(k.out.Ignored, func(a, b Ignored) int { return strings.Compare(a.From, b.From) })
}

// network takes the network of a config.json, if one is among the files.
func (k *keyed) network(files []Input) bool {
	for _, f := range files {
		if isNetwork(f.Data) {
			k.set("model.file", f.Label, f.Label)
			return true
		}
	}
	return false
}
