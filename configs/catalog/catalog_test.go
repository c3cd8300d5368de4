package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs/catalog"
)

// A table takes whatever an entry has.
type table map[string]any

func (t *table) UnmarshalTOML(value any) error {
	*t = value.(map[string]any)
	return nil
}

// Every catalog has entries, whose names are known without decoding it. By name they are the same
// without their sources.
func TestNames(t *testing.T) {
	for _, file := range []string{"codes", "devices", "kernels", "machines", "models", "stacks", "titles"} {
		all := catalog.Read[table](file)
		require.NotEmpty(t, all, file)
		for i, name := range catalog.Names(file) {
			require.Equal(t, name, all[i].Name, file)
		}
		require.Len(t, catalog.Names(file), len(all), file)
		one := catalog.ByName[table](file)
		for _, e := range all {
			value, ok := one(e.Name)
			if _, isTable := e.Value["source"].(map[string]any); isTable {
				delete(e.Value, "source")
			}
			require.True(t, ok, e.Name)
			require.Equal(t, e.Value, value, e.Name)
		}
		_, ok := one("nosuch")
		require.False(t, ok)
	}
}

// The texts of a key are those of the entries, on one line or several, and empty where an entry
// has none.
func TestTexts(t *testing.T) {
	for file, key := range map[string]string{"codes": "help", "kernels": "help", "stacks": "description", "devices": "memory", "models": "positions"} {
		texts := catalog.Texts(file, key)
		for i, e := range catalog.Read[table](file) {
			want, _ := e.Value[key].(string)
			require.Equal(t, catalog.Fold(want), texts[i], e.Name)
		}
	}
}

func TestFold(t *testing.T) {
	require.Equal(t, "one two\n\nthree", catalog.Fold("\n  one\n  two\n\n  three\n"))
	sources := map[string]string{"a": "one\n  two"}
	catalog.FoldAll(sources)
	require.Equal(t, map[string]string{"a": "one two"}, sources)
}

// Texts are folded as they are decoded, and keys that the type lacks refused.
func TestDecode(t *testing.T) {
	var page struct {
		Note catalog.Text `toml:"note"`
	}
	require.NoError(t, catalog.Decode("note = \"\"\"\n  a\n  b\"\"\"", &page))
	require.Equal(t, catalog.Text("a b"), page.Note)
	require.ErrorContains(t, catalog.Decode(`place = "x"`, &page), "place")
}
