package configs

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/link"
	"psim/internal/setting"
)

// TestDescribed: every key of the option structs is described, and every
// description has a key, says what it means, and what holds without it.
func TestDescribed(t *testing.T) {
	var check func(path string, options reflect.Value)
	check = func(path string, options reflect.Value) {
		described := options.Interface().(setting.Described).Settings()
		keys := map[string]bool{}
		for _, s := range described {
			at := path + s.Key
			require.False(t, keys[s.Key], "%s is described twice", at)
			keys[s.Key] = true
			field, ok := fields(options)[s.Key]
			require.True(t, ok, "%s is described and does not exist", at)
			require.NotEmpty(t, s.Text, at)
			require.NotRegexp(t, `\.$`, s.Text, at)
			switch {
			case isTable(field):
				check(at+".", field)
			case isList(field) && s.Example == "":
				check(at+".", reflect.New(field.Type().Elem()).Elem())
			default:
				require.False(t, s.Example == "" && s.Default == nil, "%s has no value to show", at)
				require.Equal(t, 1, count(s.Default != nil, s.Unset != "", s.Required), "%s: either a default, or what holds without one, or it is required", at)
			}
		}
		for key := range fields(options) {
			require.True(t, keys[key] || path == "link." && (key == "description" || key == "source"), "%s%s is not described", path, key)
		}
	}
	check("", reflect.ValueOf(Config{}))
	check("link.", reflect.ValueOf(link.Link{}))
	check("range.", reflect.ValueOf(link.SizeRange{}))
}

func count(facts ...bool) (n int) {
	for _, fact := range facts {
		if fact {
			n++
		}
	}
	return n
}

// TestReference: reference.txt is what psim help config prints, and mentions every
// key in its section.
func TestReference(t *testing.T) {
	if f := flag.Lookup("update"); f.Value.String() == "true" {
		require.NoError(t, os.WriteFile("reference.txt", []byte(Reference()), 0o644))
	}
	want, err := os.ReadFile("reference.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), Reference(), "write it with: go test ./configs -update")

	section := ""
	mentioned := map[string]bool{}
	header := regexp.MustCompile(`^(?:# )?\[\[?([a-z.]+)\]`)
	key := regexp.MustCompile(`^(?:# )?([a-z_0-9]+) = `)
	for line := range strings.Lines(Reference()) {
		require.LessOrEqual(t, len([]rune(strings.TrimSpace(line))), 100, line)
		if m := header.FindStringSubmatch(line); m != nil {
			section = m[1]
			mentioned[section] = true
		} else if m := key.FindStringSubmatch(line); m != nil {
			mentioned[section+"."+m[1]] = true
		}
	}
	for _, k := range allKeys(reflect.ValueOf(Config{}), "") {
		require.True(t, mentioned[k], "the reference lacks %s", k)
	}
}

// What the reference shows without a comment sign, with the sections that say what
// tasks cost in one way, is a configuration.
func TestReferenceIsValid(t *testing.T) {
	for kind, without := range map[work][]string{
		byTimes: {"model", "batch", "train", "machine", "collective"}, byModel: {"times", "memory", "collective"}, byCollective: {"times", "memory", "model", "batch", "data", "parallel", "train"},
	} {
		text := Reference()
		for _, section := range without {
			text = regexp.MustCompile(`(?m)^\[`+section+`\]\n(?:[^\[\n].*\n)*`).ReplaceAllString(text, "")
		}
		sets := []string(nil)
		if kind == byCollective {
			text = regexp.MustCompile(`(?m)^(stages|microbatches) = .*\n`).ReplaceAllString(text, "")
			sets = []string{"schedule.name=ring-allreduce", "machine.link=pcie4"}
		}
		c, err := Parse("reference.txt", []byte(text), sets...)
		require.NoError(t, err, kind)
		_, err = c.Build()
		require.NoError(t, err, kind)
	}
}

// allKeys lists the dotted keys of a struct, by its toml tags.
func allKeys(v reflect.Value, prefix string) []string {
	var keys []string
	for key, field := range fields(v) {
		switch {
		case isTable(field):
			keys = append(keys, allKeys(field, prefix+key+".")...)
		case isList(field):
			keys = append(keys, allKeys(reflect.New(field.Type().Elem()).Elem(), prefix+key+".")...)
		default:
			keys = append(keys, prefix+key)
		}
	}
	return keys
}

func isTable(field reflect.Value) bool {
	_, named := field.Interface().(link.Options) // a name as well
	_, described := field.Interface().(setting.Described)
	return described && !named
}

func isList(field reflect.Value) bool {
	return field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct
}

// fields are those of a struct by key.
func fields(v reflect.Value) map[string]reflect.Value {
	byKey := map[string]reflect.Value{}
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			maps.Copy(byKey, fields(v.Field(i)))
		}
		if key := v.Type().Field(i).Tag.Get("toml"); key != "" && key != "-" {
			byKey[key] = v.Field(i)
		}
	}
	return byKey
}
