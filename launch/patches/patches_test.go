package patches_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"psim/launch/patches"
	"psim/launch/understood"
)

// edited returns a file with another value of a key, and the patch.
func edited(t testing.TB, text, key string, value any, put bool) (string, *patches.Patch) {
	e, err := patches.Open([]understood.Input{{Label: "f", Data: []byte(text)}})
	require.NoError(t, err)
	if files := e.Keyed(0, key, value, put); files != nil {
		e.Files = files
	}
	return string(e.Files[0].Bytes()), e.Patch()
}

// TestKeyed: a value changes where it stands, and a key that is not there is put in as its neighbors are; all else stays.
func TestKeyed(t *testing.T) {
	for name, c := range map[string]struct {
		text, key string
		value     any
		put       bool
		want      string
	}{
		"block":          {"a: 1 # why\nb:\n  c: true\n", "b.c", false, false, "a: 1 # why\nb:\n  c: false\n"},
		"comment":        {"a: 1 # why\n", "a", 22, false, "a: 22 # why\n"},
		"quotes":         {"a: 'x y' # z\n", "a", "q", false, "a: 'q' # z\n"},
		"quoted number":  {"a: \"1\"\n", "a", 2, false, "a: 2\n"},
		"no value":       {"a: x\n", "a", "", false, "a: \"\"\n"},
		"last counts":    {"a: 1\na: 2\n", "a", 3, false, "a: 1\na: 3\n"},
		"flow":           {"{a: 1, b: {c: x}}", "b.c", "y", false, "{a: 1, b: {c: \"y\"}}"},
		"json":           {"{\n  \"a\": 1,\n  \"b\": {\"c\": 2}\n}\n", "b.c", 4, false, "{\n  \"a\": 1,\n  \"b\": {\"c\": 4}\n}\n"},
		"json word":      {`{"a": "x"}`, "a", "y", false, `{"a": "y"}`},
		"not there":      {"a: 1\n", "b", 2, false, "a: 1\n"},
		"put":            {"# mine\na: 1\n", "b", 2, true, "# mine\nb: 2\na: 1\n"},
		"put within":     {"a:\n  b: 1\n", "a.c", "x", true, "a:\n  c: x\n  b: 1\n"},
		"put section":    {"a: 1\n", "b.c.d", 2, true, "b:\n  c:\n    d: 2\na: 1\n"},
		"put in json":    {"{\n  \"a\": 1\n}\n", "b.c", "x", true, "{\n  \"b\": {\"c\": \"x\"},\n  \"a\": 1\n}\n"},
		"put on a line":  {`{"a": 1}`, "b", true, true, `{"b": true, "a": 1}`},
		"letters":        {"{é: 1, b: 2}\n", "b", 3, false, "{é: 1, b: 3}\n"},
		"a list":         {"a: [1, 2]\n", "a", 3, true, "a: [1, 2]\n"},
		"a value":        {"a: 1\n", "a.b", 3, true, "a: 1\n"},
		"no object":      {"- 1\n", "a", 3, true, "- 1\n"},
		"not YAML":       {"a: [\n", "a", 3, true, "a: [\n"},
		"on several":     {"a:\n  1\n", "a", 2, false, "a:\n  2\n"},
		"in a flow list": {"x: {a: 1,\n  b: yes}\n", "x.b", false, false, "x: {a: 1,\n  b: false}\n"},
	} {
		got, _ := edited(t, c.text, c.key, c.value, c.put)
		require.Equal(t, c.want, got, name)
	}
}

// applies reports that patch(1) makes of a file what the patch says, where there is such a program.
func applies(t testing.TB, before, after string, p *patches.Patch) {
	program, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("there is no patch(1)")
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "f"), []byte(before), 0o600))
	command := exec.Command(program, "-p0", "--no-backup-if-mismatch", "-F0", "-s")
	command.Dir, command.Stdin = folder, strings.NewReader(p.Text)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, p.Text)
	got, err := os.ReadFile(filepath.Join(folder, "f"))
	require.NoError(t, err)
	require.Equal(t, after, string(got), p.Text)
}

// TestPatchApplies: patch(1) takes what is written, also new lines, lines at both ends, and those without an end.
func TestPatchApplies(t *testing.T) {
	long := "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\ng: 7\nh: 8\ni: 9\nj: 10\nk: 11"
	for _, text := range []string{long, long + "\n", "a: 1"} {
		for _, keys := range [][]string{{"a"}, {"k"}, {"x.y"}, {"a", "x"}, {"x", "a", "k"}, {"f", "g"}, {"a", "h", "x.z", "x.y"}} {
			e, err := patches.Open([]understood.Input{{Label: "f", Data: []byte(text)}})
			require.NoError(t, err)
			for _, key := range keys {
				if files := e.Keyed(0, key, 77, true); files != nil {
					e.Files = files
				}
			}
			p := e.Patch()
			require.NotEmpty(t, p.Text)
			require.Equal(t, p.Lines, max(strings.Count(p.Text, "\n+")-1, strings.Count(p.Text, "\n-")), p.Text)
			applies(t, text, string(e.Files[0].Bytes()), p)
		}
	}
}

// FuzzKeyed: whatever the file is, a key that is changed has its new value then, and all others keep theirs.
func FuzzKeyed(f *testing.F) {
	for _, text := range []string{"a: 1\nb:\n  c: x\n", `{"a": 1, "b": {"c": "x"}}`, "a: 'x'\n", "\ufeff{a: 1}", "a: &x 1\nb: *x\n", "? a\n: 1\n", "a: !!str 1\n", "a: |\n  x\n", "\"a\": \"\\u0041\"\n", "a: 1\r\nb: 2\r\n"} {
		for _, key := range []string{"a", "b.c", "z"} {
			f.Add(text, key, true)
			f.Add(text, key, false)
		}
	}
	names := regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)*$`)
	f.Fuzz(func(t *testing.T, text, key string, put bool) {
		if !names.MatchString(key) {
			return
		}
		e, err := patches.Open([]understood.Input{{Label: "f", Data: []byte(text)}})
		if err != nil {
			t.Skip(err)
		}
		files := e.Keyed(0, key, 77, put)
		if files == nil {
			return
		}
		value, _ := files[0].Value(key)
		require.Equal(t, "77", value, "%q", files[0].Bytes())
		var before, after map[string]any
		if yaml.Unmarshal([]byte(text), &before) != nil { // of a key that stands there twice
			return
		}
		require.NoError(t, yaml.Unmarshal(files[0].Bytes(), &after), "%q", files[0].Bytes())
		section, _, _ := strings.Cut(key, ".")
		delete(before, section)
		delete(after, section)
		require.Equal(t, before, after, "%q", files[0].Bytes())
	})
}

// TestClimb: candidates of which none helps are told from those that do: the nearest is kept, and what is left is named.
func TestClimb(t *testing.T) {
	e, err := patches.Open([]understood.Input{{Label: "f", Data: []byte("a: 1\nb: 1\n")}})
	require.NoError(t, err)
	differ := func(files []understood.Input) (names []string, err error) {
		var values map[string]int
		if err := yaml.Unmarshal(files[0].Data, &values); err != nil {
			return nil, err
		}
		for _, name := range []string{"a", "b", "c"} {
			if values[name] != 2 {
				names = append(names, name)
			}
		}
		return names, nil
	}
	left, err := e.Climb(differ, func(names []string) (list [][]patches.Edited) {
		for _, name := range names {
			if files := e.Keyed(0, name, 2, false); files != nil {
				list = append(list, e.Keyed(0, name, "no number", false), files)
			}
		}
		return list
	})
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, left)
	require.Equal(t, "a: 2\nb: 2\n", string(e.Files[0].Bytes()))
	_, err = patches.Open([]understood.Input{{Label: "f", Data: []byte(strings.Repeat("#", 70<<10))}})
	require.EqualError(t, err, fmt.Sprintf("f: has %d kB; psim changes scripts of at most 64 kB", 70))
}
