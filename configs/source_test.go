package configs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
)

// locator fails to decode anything, because the failure tells where the library
// found it.
type locator struct{}

func (locator) UnmarshalTOML(any) error { return errors.New("located") }

// The places of values are those that the library tells in errors.
func TestPlaces(t *testing.T) {
	paths, err := filepath.Glob("*.toml")
	require.NoError(t, err)
	more, err := filepath.Glob("testdata/errors/*.toml")
	require.NoError(t, err)
	compared := 0
	for _, path := range append(paths, more...) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var top map[string]map[string]toml.Primitive
		meta, err := toml.Decode(string(data), &top)
		if err != nil {
			continue
		}
		found := places(string(data))
		for section, keys := range top {
			for key, value := range keys {
				var at toml.ParseError
				switch meta.Type(section, key) {
				case "Array", "Hash", "ArrayHash": // over several lines
					continue
				}
				require.ErrorAs(t, meta.PrimitiveDecode(value, &locator{}), &at, path)
				if at.Position.Line == 0 { // a table without a header
					continue
				}
				got := found[section+"."+key].value
				require.Equal(t, []int{at.Position.Line, at.Position.Col}, []int{got.Line, got.Col}, "%s: %s.%s", path, section, key)
				compared++
			}
		}
	}
	require.Greater(t, compared, 500)
}

func TestPlacesOfTables(t *testing.T) {
	found := places("a.b = 1\n[ c . \"d\" ] # e\n 'f' = [\n \"g = 1\"]\n[[h]]\ni={j=1}\n[[h]]\ni = 1")
	s := &source{places: func() map[string]place { return found }}
	for key, want := range map[string][]int{
		"a.b": {1, 7}, "a": {1, 1}, "c.d": {2, 3}, "c.d.f": {3, 9}, "c.d.f[2].x": {3, 9}, "c": {2, 3},
		"h[0]": {5, 1}, "h[0].i.j": {6, 4}, "h[1].k": {7, 1}, "h[1].i": {8, 5}, "h": {7, 1}, "x.y": {0, 0},
	} {
		at, _ := s.find(key)
		require.Equal(t, want, []int{at.value.Line, at.value.Col}, key)
	}
}
