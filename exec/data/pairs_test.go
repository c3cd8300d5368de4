package data_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/exec/data"
)

const lines = `{"de": "Guten Tag", "en": "Good day"}

{"translation": {"de": "ja", "en": "yes"}, "id": 7}
{"en": "", "de": "\u00fc"}`

var linesPairs = []data.Pair{{Source: "Guten Tag", Target: "Good day"}, {Source: "ja", Target: "yes"}, {Source: "ü"}}

func TestReadPairs(t *testing.T) {
	marked, err := data.ReadPairs(strings.NewReader("\ufeff"+lines), "x", 0)
	require.NoError(t, err)
	require.Equal(t, linesPairs, marked)
	pairs, err := data.ReadPairs(strings.NewReader(lines), "x", 0)
	require.NoError(t, err)
	require.Equal(t, linesPairs, pairs)
	pairs, err = data.ReadPairs(strings.NewReader(lines+"\nnot read"), "x", 2)
	require.NoError(t, err)
	require.Equal(t, linesPairs[:2], pairs)
}

// TestReadPairsPrefersTheOuterObject: "translation" may be an ordinary key.
func TestReadPairsPrefersTheOuterObject(t *testing.T) {
	line := `{"translation": "x", "de": "a", "en": "b"}`
	pairs, err := data.ReadPairs(strings.NewReader(line), "x", 0)
	require.NoError(t, err)
	require.Equal(t, []data.Pair{{Source: "a", Target: "b"}}, pairs)
}

func TestLoadPairs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.jsonl")
	_, err := data.LoadPairs(path, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(lines, "\n", "\r\n")), 0o644))
	pairs, err := data.LoadPairs(path, 0)
	require.NoError(t, err)
	require.Equal(t, linesPairs, pairs)
}

func TestReadPairsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"\n \n":                                  `x: no sentence pairs; expected lines like {"de": "…", "en": "…"}`,
		"\n{\"de\": \"a\"":                       `x:2: byte 10 of the line is not JSON`,
		`["a", "b"]`:                             `x:1: not a JSON object; expected {"de": "…", "en": "…"}`,
		`null`:                                   `x:1: not a JSON object`,
		`{}`:                                     `x:1: no key "de": the object is empty`,
		`{"de": "a", "eng": "b"}`:                `x:1: no key "en"; the object has "de", "eng"`,
		`{"a\u001b\n": 1}`:                       `x:1: no key "de"; the object has "a\x1b\n"`,
		`{"` + strings.Repeat("k", 99) + `": 1}`: `the object has "` + strings.Repeat("k", 40) + `"`,
		"{\"de\": \"a\xff\", \"en\": \"b\"}":     `x:1: the line is not UTF-8`,
		`{"de": "a", "en": null}`:                `x:1: the value of "en" is not a string`,
		`{"de": 5, "en": "b"}`:                   `x:1: the value of "de" is not a string`,
		`{"translation": "a"}`:                   `x:1: under "translation": not a JSON object`,
		`{"translation": {"de": "a"}}`:           `x:1: no key "en"; the object has "de"`,
		`{"a":1,"b":1,"c":1,"d":1,"f":1,"g":1,"h":1,"i":1,"j":1}`: `the object has "a", "b", "c", "d", "f", "g", "h", "i", …`,
	} {
		_, err := data.ReadPairs(strings.NewReader(text), "x", 0)
		require.ErrorContains(t, err, want)
	}
	_, err := data.ReadPairs(iotest.ErrReader(os.ErrPermission), "x", 0)
	require.ErrorIs(t, err, os.ErrPermission)
}

func TestEncodePairs(t *testing.T) {
	const s, e, p = data.EndOfSource, data.EndOfTarget, data.Padding
	set, err := data.EncodePairs([]data.Pair{{Source: "ab", Target: "c"}, {Source: "abc", Target: "def"},
		{Source: "abcdef", Target: "g"}, {}}, 6)
	require.NoError(t, err)
	require.Equal(t, 4, set.Len())
	inputs, targets := set.Batch([]int{0, 1, 2, 3})
	require.Equal(t, []int32{
		'a', 'b', s, 'c', e, p,
		'a', 'b', 'c', s, 'd', 'e',
		'a', 'b', 'c', 'd', 'e', 'f',
		s, e, p, p, p, p,
	}, inputs)
	const no = data.Ignored
	require.Equal(t, []int32{
		no, no, 'c', e, no, no,
		no, no, no, 'd', 'e', 'f',
		no, no, no, no, no, no,
		e, no, no, no, no, no,
	}, targets)
	_, last := set.Batch([]int{3})
	require.Equal(t, targets[18:], last)

	_, err = data.EncodePairs(nil, 6)
	require.ErrorContains(t, err, "number of pairs is 0; it must be at least 1")
	_, err = data.EncodePairs(linesPairs, 0)
	require.ErrorContains(t, err, "sequence is 0; it must be at least 1")
}

// TestEncodePairsLaws decodes what was encoded.
func TestEncodePairsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := data.Pair{Source: rapid.String().Draw(t, "source"), Target: rapid.String().Draw(t, "target")}
		sequence := rapid.IntRange(1, 60).Draw(t, "sequence")
		set, err := data.EncodePairs([]data.Pair{p}, sequence)
		require.NoError(t, err)
		inputs, targets := set.Batch([]int{0})
		var source, target []byte
		into, ended := &source, false
		for i, token := range append(inputs[:1:1], set.IDs[1:]...) {
			require.Less(t, token, int32(set.Vocabulary))
			if i > 0 && into == &target && !ended {
				require.Equal(t, token, targets[i-1])
			} else if i > 0 {
				require.EqualValues(t, data.Ignored, targets[i-1])
			}
			switch {
			case ended:
				require.EqualValues(t, data.Padding, token)
			case token == data.EndOfSource:
				into = &target
			case token == data.EndOfTarget:
				ended = true
			default:
				*into = append(*into, byte(token))
			}
		}
		require.Equal(t, inputs, set.IDs[:sequence])
		require.True(t, strings.HasPrefix(p.Source, string(source)))
		require.True(t, strings.HasPrefix(p.Target, string(target)))
		fits := len(p.Source)+len(p.Target)+2 <= sequence+1
		require.Equal(t, fits, ended)
		if fits {
			require.Equal(t, p.Source, string(source))
			require.Equal(t, p.Target, string(target))
		}
	})
}

// TestOnlyRegularFiles checks that files are refused that could block or never end.
func TestOnlyRegularFiles(t *testing.T) {
	folder := t.TempDir()
	inside := filepath.Join(folder, "data_batch_1.bin")
	require.NoError(t, os.Mkdir(inside, 0o755))
	for _, path := range []string{folder, os.DevNull} {
		_, err := data.LoadPairs(path, 1)
		require.EqualError(t, err, path+": is not a regular file")
	}
	_, err := data.LoadCIFAR10(folder, 1)
	require.EqualError(t, err, inside+": is not a regular file")
}

func FuzzReadPairs(f *testing.F) {
	f.Add([]byte(lines), 0)
	f.Add([]byte("{\"de\": \"a\xff\", \"en\": \"\\ud800\"}\n"), 1)
	f.Add([]byte(`{"translation": {"de": null, "en": []}}`), -1)
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		pairs, err := data.ReadPairs(strings.NewReader(string(text)), "fuzz", limit)
		if err != nil {
			require.ErrorContains(t, err, "fuzz:")
			return
		}
		require.NotEmpty(t, pairs)
		require.True(t, limit <= 0 || len(pairs) <= limit)
		set, err := data.EncodePairs(pairs, 16)
		require.NoError(t, err)
		require.Equal(t, len(pairs), set.Len())
	})
}
