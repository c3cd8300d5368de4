package hfconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// configKeys holds the values of a config.json by key.
type configKeys map[string]json.RawMessage

// given reports whether a key has a value other than null.
func (k configKeys) given(key string) bool {
	return len(k[key]) > 0 && !bytes.Equal(k[key], []byte("null"))
}

// readKeys reads an object.
func readKeys(data []byte) (configKeys, error) {
	var keys configKeys
	err := unmarshal(data, &keys)
	return keys, err
}

// dense refuses experts for a model_type without them. It accepts a single expert, which is an MLP.
func (k configKeys) dense(modelType string) error {
	experts := []string{"num_local_experts", "num_experts", "n_routed_experts"}
	if err := k.checkCase(experts); err != nil {
		return err
	}
	for _, key := range experts {
		if text := string(k[key]); k.given(key) && text != "0" && text != "1" {
			return fmt.Errorf("%s = %.20s is not supported with model_type %q; use model_type \"mixtral\", "+
				"or remove it", key, text, modelType)
		}
	}
	return nil
}

// nonNumber matches a string, which stays as it is, or a word that Python writes for a number that
// JSON does not have.
var nonNumber = regexp.MustCompile(`"(?:\\.|[^"\\])*"?|-?\bInfinity\b|\bNaN\b`)

// quoteNonNumbers makes strings of these words, so that keys without an effect may have them.
func quoteNonNumbers(data []byte) []byte {
	return nonNumber.ReplaceAllFunc(data, func(word []byte) []byte {
		if word[0] == '"' {
			return word
		}
		return fmt.Appendf(nil, "%q", word)
	})
}

// fill decodes the values into a struct by its tags. The case of keys must be right, as for
// transformers; encoding/json would accept any case.
func (k configKeys) fill(data []byte, into any) error {
	fields := tagged(reflect.TypeOf(into).Elem())
	var known []string
	for _, field := range fields {
		known = append(known, field.Tag.Get("json"))
	}
	if err := k.checkCase(known); err != nil {
		return err
	}
	for i, key := range known {
		if word := strings.Trim(string(k[key]), `"`); nonNumber.FindString(word) == word && word != "" {
			return fmt.Errorf("%s is %s: give its value", key, word)
		}
		if value := reflect.New(fields[i].Type).Interface(); k.given(key) && json.Unmarshal(k[key], value) != nil {
			return fmt.Errorf("%s = %s: must be %s", key, shortened(k[key]), kindOf(fields[i].Type))
		}
	}
	return unmarshal(data, into)
}

// tagged lists the fields of a struct and of those within it that hold the value of a key.
func tagged(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

// checkCase refuses known keys in the wrong case.
func (k configKeys) checkCase(known []string) error {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		for _, right := range known {
			if key != right && strings.EqualFold(key, right) {
				return fmt.Errorf("unknown key %q; write %q", key, right)
			}
		}
	}
	return nil
}

// An alias is a second name of a key, as in an attribute_map of transformers.
type alias struct {
	key   string
	value *int
	name  string
	other *int
}

// resolve takes the value of the second name, if it is given. It refuses two names with different
// values.
func (a alias) resolve(keys configKeys) error {
	if a.other == nil {
		return nil
	}
	if keys.given(a.key) && *a.value != *a.other {
		return fmt.Errorf("%s = %d and %s = %d are the same setting; remove one", a.key, *a.value, a.name, *a.other)
	}
	*a.value = *a.other
	return positive(a.name, a.other)
}
