package configs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/internal/golden"
)

// Every file of testdata/errors is wrong in one way; errors.golden lists what
// is said about it.
func TestErrorMessages(t *testing.T) {
	paths, err := filepath.Glob("testdata/errors/*.toml")
	require.NoError(t, err)
	require.Greater(t, len(paths), 100)
	var b strings.Builder
	for _, path := range paths {
		err := failure(configs.Load(path))
		require.Error(t, err, path)
		var problem *configs.Error
		require.ErrorAs(t, err, &problem, path)
		checkPosition(t, path, problem)
		fmt.Fprintf(&b, "%s\n", strings.TrimPrefix(err.Error(), "testdata/errors/"))
	}
	golden.Equal(t, "errors.golden", b.String())
}

var unknownKey = regexp.MustCompile(`^unknown (?:key|section) "(?:.*\.)?(.*?)"`)

// checkPosition wants the position of an error to be in the text: on the line
// of the key it names, at its value or at the key itself if that is unknown,
// or on the header of the section.
func checkPosition(t *testing.T, path string, e *configs.Error) {
	t.Helper()
	if e.Line == 0 {
		return
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := strings.Split(string(data), "\n")
	require.LessOrEqual(t, e.Line, len(text), e)
	line := text[e.Line-1]
	require.LessOrEqual(t, e.Col, len(line)+1, e)
	if m := unknownKey.FindStringSubmatch(e.Problem); m != nil {
		require.True(t, strings.HasPrefix(line[e.Col-1:], m[1]), e)
		return
	}
	if e.Key == "" { // a mistake in the syntax
		return
	}
	section, _, _ := strings.Cut(e.Key, ".")
	key := e.Key[strings.LastIndex(e.Key, ".")+1:]
	if header, ok := strings.CutPrefix(line, "["); ok {
		require.True(t, strings.HasPrefix(strings.TrimPrefix(header, "["), section), e)
		return
	}
	require.Regexp(t, "^"+key+" *= ", line, e)
	require.Greater(t, e.Col, strings.Index(line, "="), e)
}

// A value that is out of place is pointed at.
func TestPositionOfValue(t *testing.T) {
	text := strings.Replace(small, `"20ms"`, `  "20"`, 1)
	var e *configs.Error
	require.ErrorAs(t, failure(configs.Parse("x.toml", []byte(text))), &e)
	require.Equal(t, "times.backward", e.Key)
	require.Equal(t, []int{9, 15}, []int{e.Line, e.Col}) // behind the quote
}

// CR LF and a byte order mark, as Windows writes them, change nothing.
func TestWindowsText(t *testing.T) {
	text := "\xef\xbb\xbf" + strings.ReplaceAll(small, "\n", "\r\n")
	_, summary := run(t, parse(t, text))
	_, want := run(t, parse(t, small))
	require.Equal(t, want, summary)
	err := failure(configs.Parse("x.toml", []byte(text), "times.forward=1"))
	require.ErrorContains(t, err, "no unit")

	path := withOrder(t, "\ufeff0F0,0B0\r\n", ownTimes)
	c, err := configs.Load(path)
	require.NoError(t, err)
	run(t, c)
	_, err = configs.ParseMachine("m.toml", []byte("\ufeff[machine]\r\ndevice = \"t4\"\r\n"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "m.json"), []byte("\ufeff{\"model_type\": \"gpt2\"}\r\n"), 0o600))
	model := "\ufeff[schedule]\nname = \"ddp\"\n[model]\nfile = \"m.json\"\n[batch]\nglobal = 1\n[machine]\ndevice = \"t4\"\n"
	require.NoError(t, os.WriteFile(path, []byte(model), 0o600))
	c, err = configs.Load(path)
	require.NoError(t, err)
	run(t, c)
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("large.toml", []byte(strings.Repeat("# long\n", 1<<18)), 0o600))
	require.NoError(t, os.WriteFile("locked.toml", []byte(small), 0))
	require.NoError(t, os.Mkdir("folder", 0o700))
	require.NoError(t, os.Mkdir("results", 0o700))
	for name, text := range map[string]string{
		"results/result.json": ` {"schema": 1, "kind": "predicted", "stages": 4}`, "{}.json": "{}\n",
		"utf16.toml": "\xff\xfe[\x00m\x00]\x00",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for path, want := range map[string]string{
		"absent.toml":         "absent.toml: no such file, and no example or preset of that name; psim list examples and psim list models list the names",
		"./absnt.toml":        "./absnt.toml: no such file",
		"folder":              "folder: is a directory; name a .toml file in it",
		"large.toml":          "large.toml: has more than 1048576 bytes; that is too large",
		"large.toml/x.toml":   "large.toml/x.toml: cannot be read: not a directory",
		"locked.toml":         "locked.toml: cannot be read: permission denied",
		"catalog/links":       "catalog/links: no such file",
		"":                    `"": is an empty name; name a .toml file or an example (psim list examples)`,
		"results":             "results/result.json: is a result that holds no configuration; name the one that it was made from",
		"results/result.json": "results/result.json: is a result that holds no configuration; name the one that it was made from",
		"{}.json":             "{}.json: is JSON; a configuration is TOML, such as psim show gpipe prints",
		"utf16.toml":          "utf16.toml: is text in UTF-16; save it as UTF-8",
		"a\x00b":              "a\x00b: cannot be read: invalid argument",
		"../" + dir + "/none": "none: no such file",
	} {
		if path == "locked.toml" && os.Geteuid() == 0 {
			continue // root may read everything
		}
		_, err := configs.Load(path)
		require.ErrorContains(t, err, want)
	}
}

// A folder of an example's name, such as psim run --out makes, does not hide
// the example; a file does.
func TestNamesOfExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("gpipe", 0o700))
	c, err := configs.Load("gpipe")
	require.NoError(t, err)
	require.Equal(t, "gpipe", c.Name())
	require.NoError(t, os.WriteFile("1f1b", []byte(small), 0o600))
	c, err = configs.Load("1f1b")
	require.NoError(t, err)
	require.Equal(t, "gpipe", c.Schedule.Name)
	c, err = configs.Load("ddp.toml")
	require.NoError(t, err)
	require.Equal(t, "ddp", c.Name())
}

// A configuration may come through a pipe.
func TestPipe(t *testing.T) {
	if _, err := os.Stat("/dev/fd"); errors.Is(err, os.ErrNotExist) {
		t.Skip("no /dev/fd here")
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString(small)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	c, err := configs.Load(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	require.NoError(t, err)
	require.Equal(t, 4, c.Schedule.Microbatches)
}

// A library's caller can tell that there is no such file.
func TestNotExist(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := configs.Load("gpip")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, "gpip: no such file, and no example or preset of that name; did you mean gpipe?")
	_, err = configs.Load("gpipe", "schedule.stages=0")
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrNotExist)
}
