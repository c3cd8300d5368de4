// Package keyed reads the configurations of training programs that have one value a key, in TOML, JSON or YAML.
package keyed

import (
	"encoding/csv"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"psim/internal/jsonfile"
	"psim/launch/understood"
)

// A reading is what is understood of files so far.
type reading struct {
	*understood.Import
	refused error // the first key that psim cannot follow
}

// A file is the configuration of a program that reads keys of sections: by dotted key, with the values of JSON.
type file struct {
	*reading
	label   string
	keys    map[string]any
	effects map[string]string // by key; a section stands for all of its keys that have no row
	assumed []string          // keys that no file and no flag gives
}

// begin returns what is understood of files so far: nothing.
func begin(format, version string) *reading {
	return &reading{Import: &understood.Import{Format: format, Version: version, Config: map[string]any{}}}
}

// askLength assumes a length of samples, which no file says: no longer than the network has positions for.
func (r *reading) askLength(files []understood.Input) {
	assumed := 2048
	for _, f := range files {
		for _, key := range []string{"n_positions", "max_position_embeddings"} {
			if n, ok := object(f.Data)[key].(float64); ok && IsNetwork(f.Data) && n >= 1 && n < float64(assumed) {
				assumed = int(n)
			}
		}
	}
	r.Set("model.sequence_length", assumed)
	r.Ask("model.sequence_length", fmt.Sprintf("the script decides: %d tokens are assumed; --set "+
		"model.sequence_length=N says it", assumed))
}

// open returns a file with a table of effects, still without keys.
func (r *reading) open(f understood.Input, table string) (*file, error) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		return nil, err
	}
	k := &file{reading: r, label: f.Label, keys: map[string]any{}, effects: map[string]string{}}
	for _, row := range rows[1:] {
		k.effects[row[0]] = row[1]
	}
	return k, nil
}

// flatten notes the keys of a table, with its own key before them.
func (k *file) flatten(prefix string, table map[string]any) {
	for name, value := range table {
		key := strings.TrimPrefix(prefix+"."+name, ".")
		switch inner := value.(type) {
		case map[string]any:
			k.flatten(key, inner)
			continue
		case map[any]any: // of YAML, with numbers for keys
			k.keys[key] = fmt.Sprint(inner)
			continue
		}
		k.keys[key] = value
	}
}

// decoded returns the keys of an object in JSON or YAML.
func decoded(data []byte) (table map[string]any, err error) {
	if table = object(data); table != nil {
		return table, nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	lastOnly(&root)
	err = root.Decode(&table)
	return table, err
}

// Broken says what is wrong with a file that is called JSON, TOML or YAML and cannot be read as that; nil for others.
func Broken(f understood.Input) error {
	var table map[string]any
	var err error
	form := strings.ToUpper(strings.TrimPrefix(path.Ext(f.Label), "."))
	switch form {
	case "JSON":
		err = jsonfile.Unmarshal(f.Data, &table)
	case "TOML":
		err = toml.Unmarshal(f.Data, &table)
	case "YAML", "YML":
		form, err = "YAML", yaml.Unmarshal(f.Data, &table)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: is not %s: %s", f.Label, form, strings.TrimPrefix(err.Error(), strings.ToLower(form)+": "))
}

// lastOnly removes what a later value of the same key replaces, as Python's reader does.
func lastOnly(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		last := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			last[n.Content[i].Value] = i
		}
		list := n.Content[:0:0]
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode || last[n.Content[i].Value] == i {
				list = append(list, n.Content[i], n.Content[i+1])
			}
		}
		n.Content = list
	}
	for _, inner := range n.Content {
		lastOnly(inner)
	}
}

// decode reads the keys of a file in JSON, YAML or torchtitan's TOML.
func (k *file) decode(f understood.Input) error {
	if len(f.Data) > understood.MostScript {
		return fmt.Errorf("%s: has %d kB; no such configuration is as long", f.Label, len(f.Data)>>10)
	}
	if isTitan(f.Data) && object(f.Data) == nil {
		table, err := titanTable(f)
		k.flatten("", table)
		return err
	}
	table, err := decoded(f.Data)
	if err != nil {
		return notYAML(f.Label, err)
	}
	k.flatten("", table)
	return nil
}

// notYAML says what is wrong with a file that is neither JSON nor YAML.
func notYAML(label string, err error) error {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	return fmt.Errorf("%s: is not YAML: %s", label, text)
}

// whole returns the whole number of a key, or otherwise; other values are refused.
func (k *file) whole(key string, otherwise int) int {
	switch n := k.keys[key].(type) {
	case nil:
		return otherwise
	case string:
		if n == "auto" {
			return otherwise
		}
	case int:
		if n > -understood.MostSize && n < understood.MostSize {
			return n
		}
	case int64:
		if n > -understood.MostSize && n < understood.MostSize {
			return int(n)
		}
	case float64:
		if n == float64(int(n)) && n > -understood.MostSize && n < understood.MostSize {
			return int(n)
		}
	}
	if k.keys[key] == true {
		k.refuseKey(key, "has no value; it must be a whole number")
	}
	k.refuseKey(key, fmt.Sprintf("must be a whole number below %d", int64(understood.MostSize)))
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
func (k *file) degree(key string) int {
	n := k.whole(key, 1)
	if n < 1 {
		k.refuseKey(key, "must be at least 1")
		return 1
	}
	return n
}

// word returns the text of a key, or otherwise.
func (k *file) word(key, otherwise string) string {
	switch s := k.keys[key].(type) {
	case nil:
		return otherwise
	case string:
		return s
	}
	return fmt.Sprint(k.keys[key])
}

// real returns the number of a key, or otherwise.
func (k *file) real(key string, otherwise float64) float64 {
	if x, ok := k.number(key); ok {
		return x
	}
	return otherwise
}

// number returns the number of a key, and false for another value.
func (k *file) number(key string) (x float64, ok bool) {
	switch n := k.keys[key].(type) {
	case int:
		x = float64(n)
	case int64:
		x = float64(n)
	case float64:
		x = n
	default:
		return 0, false
	}
	return x, x == x // not NaN
}

// is reports whether a key is true. What is neither true nor false nor left to the trainer is refused.
func (k *file) is(key string) bool {
	b, isBool := k.keys[key].(bool)
	if value := k.keys[key]; !isBool && value != nil && value != "auto" {
		k.refuseKey(key, "must be true or false")
	}
	return b
}

// sections refuses values in place of sections, and sections in place of values.
func (k *file) sections() {
	names := slices.Sorted(maps.Keys(k.effects))
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		at := slices.IndexFunc(names, func(name string) bool {
			return strings.HasPrefix(key, name+".") && k.effects[name] == understood.EffectMapped && name != "deepspeed"
		})
		if _, known := k.effects[key]; at >= 0 && !known {
			k.refuseKey(key, names[at]+" must be a value, not a section")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, key+".") })
		if at >= 0 && k.keys[key] != nil {
			k.refuseKey(key, "must be a section with keys of its own, such as "+names[at])
		}
	}
}

// refuseKey says what psim cannot follow.
func (k *file) refuseKey(key, reason string) {
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
func (k *file) aside(key, reason string) {
	from := fmt.Sprintf("%s = %s", key, shown(k.keys[key]))
	k.Leave(from, reason)
}

// effect returns what a key's table says of it, or of the section that it is in.
func (k *file) effect(key string) (effect string, known bool) {
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
func (k *file) rest() {
	for _, key := range slices.Sorted(maps.Keys(k.keys)) {
		if slices.Contains(k.assumed, key) {
			continue
		}
		effect, known := k.effect(key)
		off := k.keys[key] == false || k.keys[key] == nil || k.keys[key] == "" || k.keys[key] == "none" ||
			k.keys[key] == "no" || k.keys[key] == "NO"
		switch {
		case !known:
			k.Unknown++
			k.Leave(key, understood.UnknownReason)
		case effect == understood.EffectMapped:
		case effect == understood.EffectNone, off:
			k.Idle++
		default:
			k.aside(key, effect)
		}
	}
	slices.SortStableFunc(k.Ignored, func(a, b understood.Ignored) int { return strings.Compare(a.From, b.From) })
}

// network takes the network of a config.json, if one is among the files.
func (k *file) network(files []understood.Input) bool {
	for _, f := range files {
		if IsNetwork(f.Data) {
			k.Set("model.file", f.Label, f.Label)
			return true
		}
	}
	return false
}
