package configs

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReference holds the reference to the code: it mentions every key, in
// its section, and its plain text is a valid configuration of each sort.
func TestReference(t *testing.T) {
	section := ""
	mentioned := map[string]bool{}
	header := regexp.MustCompile(`^(?:# )?\[\[?([a-z.]+)\]`)
	key := regexp.MustCompile(`^(?:# )?([a-z_0-9]+) = `)
	for line := range strings.Lines(Reference()) {
		if m := header.FindStringSubmatch(line); m != nil {
			section = m[1]
		} else if m := key.FindStringSubmatch(line); m != nil {
			mentioned[section+"."+m[1]] = true
		}
	}
	for _, k := range allKeys(reflect.ValueOf(defaults()).Elem(), "") {
		require.True(t, mentioned[k], "the reference lacks %s", k)
		delete(mentioned, k)
	}
	for k := range mentioned {
		section, _, _ := strings.Cut(k, ".")
		require.Contains(t, []string{"machine"}, section, "the reference mentions %s, which does not exist", k)
	}
}

// allKeys lists the dotted keys of a struct, by its toml tags.
func allKeys(v reflect.Value, prefix string) []string {
	var keys []string
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("toml")
		switch {
		case tag == "" || tag == "-":
		case nested(v.Field(i)):
			keys = append(keys, allKeys(v.Field(i), prefix+tag+".")...)
		case listed(v.Field(i)):
			keys = append(keys, allKeys(reflect.New(v.Field(i).Type().Elem()).Elem(), prefix+tag+".")...)
		default:
			keys = append(keys, prefix+tag)
		}
	}
	return keys
}
