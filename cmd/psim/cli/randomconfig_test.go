package cli

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/configs"
	"psim/configs/catalog"
	"psim/internal/setting"
	"psim/schedules"
	"psim/schedules/collective"
)

// A drawer draws configurations from the rows that describe the settings, so that a new key
// is drawn without a change here.
type drawer struct {
	*rand.Rand
	kept []string // the sections, or keys, that say what the work is
}

// A drawn configuration has TOML values by dotted key.
type drawnConfig map[string]string

func (d *drawer) chance(p float64) bool { return d.Float64() < p }

func pick[T any](d *drawer, list ...T) T { return list[d.IntN(len(list))] }

// number draws a small number of things, as TOML.
func (d *drawer) number() string { return pick(d, "1", "1", "2", "2", "3", "4", "4", "8", "16") }

// named lists the values of keys that name an entry of a catalog.
var named = map[string][]string{
	"schedule.name": append(schedules.Names(), "fsdp"), "model.preset": catalog.Names("models"),
	"machine.device": catalog.Names("devices"), "machine.link": catalog.Names("links"),
	"machine.network": catalog.Names("links"), "machine.host_link": catalog.Names("links"),
}

// config draws a configuration: what it needs at least, keys that most trainings have, and any
// others.
func (d *drawer) config() drawnConfig {
	c, with := drawnConfig{}, pick(d, "model", "model", "model", "model", "model", "model", "times", "times", "collective")
	alternatives := []string{with}
	switch with {
	case "model":
		family := d.model(c)
		alternatives, d.kept = append(alternatives, family), []string{"model.preset"}
		if c["model.family"] != "" {
			d.kept = []string{"model.family"}
		}
	case "times":
		d.kept = []string{"times.forward"}
		c["times.forward"], c["times.backward_input"], c["times.backward_weight"] = `"10ms"`, `"8ms"`, `"7ms"`
	case "collective":
		d.kept = []string{"collective.bytes"}
		c["schedule.name"] = strconv.Quote(pick(d, collective.Names()...))
		c["collective.bytes"], c["collective.ranks"] = pick(d, `"1B"`, `"7kB"`, `"20GB"`), pick(d, "2", "3", "4", "8")
		c["machine.device"] = strconv.Quote(pick(d, named["machine.device"]...))
	}
	if with != "collective" {
		c["schedule.name"] = strconv.Quote(pick(d, named["schedule.name"]...))
		for key, p := range map[string]float64{
			"schedule.stages": .7, "schedule.microbatches": .6, "schedule.virtual_stages": .3,
			"parallel.data": .4, "parallel.tensor": .2,
		} {
			if d.chance(p) {
				c[key] = d.number()
			}
		}
	}
	p := pick(d, .01, .05, .1, .2)
	for s := range setting.Keys(configs.Config{}) {
		section, _, _ := strings.Cut(s.Path, ".")
		if _, given := c[s.Path]; given || !d.allowed(s, section, alternatives) || !d.chance(p) {
			continue
		}
		if value, ok := d.value(s); ok {
			c[s.Path] = value
		}
	}
	c.dropConflicts()
	return c
}

// model draws a network, its machine and its samples, and returns its family.
func (d *drawer) model(c drawnConfig) (family string) {
	c["batch.micro"], c["machine.device"] = d.number(), strconv.Quote(pick(d, named["machine.device"]...))
	for key, values := range map[string][]string{
		"train.stack": catalog.Names("stacks"), "train.precision": {"fp32", "bf16", "fp16", "fp8"},
		"machine.network": named["machine.network"],
	} {
		if d.chance(.4) {
			c[key] = strconv.Quote(pick(d, values...))
		}
	}
	if c["machine.network"] != "" {
		c["machine.devices_per_node"] = pick(d, "1", "2", "4", "8")
	}
	if d.chance(.3) {
		c["model.preset"] = strconv.Quote(pick(d, named["model.preset"]...))
		if d.chance(.9) { // of which most would take seconds
			c["model.layers"] = pick(d, "1", "2", "4", "6")
		}
		return pick(d, "gpt", "llama", "mixtral", "mlp", "file")
	}
	family = pick(d, "gpt", "llama", "mixtral", "mixtral", "mlp")
	heads := pick(d, 1, 2, 4, 8)
	maps.Copy(c, drawnConfig{
		"model.family": strconv.Quote(family), "model.layers": pick(d, "1", "2", "4", "8", "12"),
		"model.hidden": strconv.Itoa(heads * pick(d, 8, 64, 128)),
	})
	if family != "mlp" {
		maps.Copy(c, drawnConfig{
			"model.heads": strconv.Itoa(heads), "model.vocab": pick(d, "1", "1000", "50257"),
			"model.sequence_length": pick(d, "1", "128", "4096"), "model.ffn_hidden": pick(d, "1", "512", "11008"),
		})
	}
	if family == "mixtral" {
		c["model.experts"], c["model.experts_per_token"] = pick(d, "1", "2", "8", "16"), pick(d, "1", "2")
		c["parallel.expert"] = pick(d, "1", "1", "2", "4")
	}
	return family
}

// allowed reports whether a key is drawn with some alternatives: seldom one that has no meaning
// with them.
func (d *drawer) allowed(s setting.Nested, section string, alternatives []string) bool {
	meant := func(with []string) bool {
		return with == nil || slices.ContainsFunc(alternatives, func(a string) bool { return slices.Contains(with, a) })
	}
	row, _, _ := setting.Find(configs.Config{}, section)
	return s.Path != section && (meant(row.With) && meant(s.With) || d.chance(.02))
}

// nasty draws a value that few keys take.
func (d *drawer) nasty() string {
	return pick(d, "0", "-1", "1", "2", "1e308", "-1e308", "nan", "inf", "-inf", "2147483647", "2147483648",
		"9223372036854775807", "-9223372036854775808", `""`, `"\u001b[31mred\u0007"`, `"a\nb"`, `"none"`, "[]", "[[]]",
		"[1, 2]", `["1ms", "2ms"]`, "{}", "{a = 1}", "true", "false", "1979-05-27", `"1e300GB"`, `"0ns"`, `"-1ms"`,
		`"1ms"`, `"1B"`, `"1B/s"`, `"9e18B"`, `"2562047h"`, `"`+strings.Repeat("x", 3000)+`"`)
}

// value draws the value of a key. It reports false for tables, whose keys are drawn by themselves.
func (d *drawer) value(s setting.Nested) (string, bool) {
	t := reflect.TypeOf(s.Value)
	_, reads := reflect.New(reflect.TypeFor[string]()).Interface().(encoding.TextUnmarshaler)
	switch {
	case t != nil && t.Kind() == reflect.Struct && s.Example == "" && s.Default == nil && !reads && named[s.Path] == nil:
		return "", false
	case d.chance(.02):
		return d.nasty(), true
	case named[s.Path] != nil:
		return strconv.Quote(pick(d, named[s.Path]...)), true
	case s.Parts != nil && d.chance(.6):
		return d.parts(s.Parts), true
	case s.OneOf != nil:
		return strconv.Quote(pick(d, s.OneOf...)), true
	case t != nil && t.Kind() == reflect.Bool:
		return pick(d, "true", "false"), true
	}
	example := s.Example
	if example == "" && s.Default != nil {
		example = setting.Quote(s.Default)
	}
	switch {
	case t == nil || d.chance(.2):
	case t.Implements(reflect.TypeFor[fmt.Stringer]()) && t.Kind() != reflect.Struct:
		return d.quantity(t, example), true
	case t.Kind() == reflect.Float64 || t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		return d.inRange(s.Range, t), true
	}
	return example, example != ""
}

// parts draws a list.
func (d *drawer) parts(parts []string) string {
	var list []string
	for range 1 + d.IntN(3) {
		list = append(list, strconv.Quote(pick(d, parts...)))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// quantity draws a multiple of a quantity.
func (d *drawer) quantity(t reflect.Type, example string) string {
	at := reflect.New(t)
	text, _ := strconv.Unquote(example)
	reads, ok := at.Interface().(encoding.TextUnmarshaler)
	if !ok || reads.UnmarshalText([]byte(text)) != nil {
		return example
	}
	x := at.Elem().Convert(reflect.TypeFor[float64]()).Float() * pick(d, 0, .001, .1, .5, 1, 2, 10, 1000, 1e6)
	if x > math.MaxInt64/2 {
		return example
	}
	return strconv.Quote(reflect.ValueOf(x).Convert(t).Interface().(fmt.Stringer).String())
}

// inRange draws a number of a range: an end of it, or a small one.
func (d *drawer) inRange(r setting.Range, t reflect.Type) string {
	x := pick(d, r.Min, r.Min, r.Min+1, 1, 2, 2, 3, 4, 8, 16, 64)
	if t.Kind() == reflect.Float64 {
		x = pick(d, r.Min, 0, .01, .25, .5, .9, 1, 1.25, 4)
	}
	if d.chance(.03) {
		x = r.Max
	}
	if t.Kind() != reflect.Float64 && x < math.MaxInt64 {
		return strconv.FormatInt(int64(x), 10)
	}
	return strings.Replace(strconv.FormatFloat(x, 'g', -1, 64), "Inf", "inf", 1)
}

// dropConflicts drops keys of tables that are named by a value.
func (c drawnConfig) dropConflicts() {
	for key := range c {
		for table := range c {
			if strings.HasPrefix(key, table+".") {
				delete(c, key)
			}
		}
	}
}

// file writes the configuration: with tables, or with dotted keys alone in another order.
func (c drawnConfig) file(dotted bool) string {
	var b strings.Builder
	keys := slices.Sorted(maps.Keys(c))
	if dotted {
		slices.Reverse(keys)
	}
	section := ""
	for _, key := range keys {
		table, rest, _ := strings.Cut(key, ".")
		if dotted {
			rest = key
		} else if table != section {
			section = table
			fmt.Fprintf(&b, "[%s]\n", section)
		}
		fmt.Fprintf(&b, "%s = %s\n", rest, c[key])
	}
	return b.String()
}

var (
	dottedKey = regexp.MustCompile(`\b[a-z]+(\.[a-z_0-9]+)+`)
	missing   = regexp.MustCompile(`([a-z]+\.[a-z_0-9.]+) is missing`)
	// eitherOf is an error about two descriptions of the work.
	eitherOf = regexp.MustCompile(`exactly one of them|has no meaning with \[`)
)

// repair gives a key that an error misses, or drops one that it names, or any. It reports false if
// nothing is left to drop.
func (d *drawer) repair(c drawnConfig, message string) bool {
	if m := missing.FindStringSubmatch(message); m != nil && c[m[1]] == "" {
		for s := range setting.Keys(configs.Config{}) {
			if value, ok := d.value(s); ok && s.Path == m[1] {
				c[s.Path] = value
				return true
			}
		}
	}
	if eitherOf.MatchString(message) && d.dropOthers(c) {
		return true
	}
	var blamed, all []string
	named, words := dottedKey.FindAllString(message, -1), keyWord.FindAllString(message, -1)
	for _, key := range slices.Sorted(maps.Keys(c)) {
		if key == "schedule.name" || key == "machine.device" || slices.Contains(d.kept, key) {
			continue
		}
		all = append(all, key)
		if slices.Contains(named, key) || len(named) == 0 && slices.Contains(words, key[strings.LastIndex(key, ".")+1:]) {
			blamed = append(blamed, key)
		}
	}
	if len(all) == 0 {
		return false
	}
	if blamed == nil {
		blamed = all
	}
	delete(c, pick(d, blamed...))
	return true
}

var keyWord = regexp.MustCompile(`[a-z_0-9]+`)

// dropOthers drops what describes the work in another way than the keys that are kept.
func (d *drawer) dropOthers(c drawnConfig) bool {
	before := len(c)
	section, _, _ := strings.Cut(d.kept[0], ".")
	maps.DeleteFunc(c, func(key, _ string) bool {
		of, rest, _ := strings.Cut(key, ".")
		source := of == "model" && (rest == "preset" || rest == "family" || rest == "file") && !slices.Contains(d.kept, key)
		return source || of != section && (of == "times" || of == "model" || of == "collective") ||
			of == "machine" && section == "times"
	})
	return len(c) < before
}
