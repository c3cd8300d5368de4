// Package foreign describes files that were named as configurations by mistake: pictures, results,
// orders, scripts, logs.
package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// instead ends messages with what would be right.
const instead = "name a .toml file or an example (psim list examples)"

// Certain says what data is that cannot be TOML, whatever its name, and what to do with it. It
// returns "" for all other data.
func Certain(data []byte) string {
	for _, kind := range [][2]string{
		{"\xff\xfe", "is text in UTF-16; save it as UTF-8"},
		{"\xfe\xff", "is text in UTF-16; save it as UTF-8"},
		{"\x89PNG", "is a picture; " + instead},
		{"\xff\xd8\xff", "is a picture; " + instead},
		{"GIF8", "is a picture; " + instead},
		{"%PDF", "is a PDF; " + instead},
		{"\x1f\x8b", "is compressed; " + instead},
		{"PK\x03\x04", "is an archive; " + instead},
	} {
		if bytes.HasPrefix(data, []byte(kind[0])) {
			return kind[1]
		}
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	switch {
	case bytes.IndexByte(data, 0) >= 0:
		return "is not a text file; a configuration is TOML in UTF-8"
	case bytes.HasPrefix(text, []byte("<")) && bytes.Contains(text, []byte("<svg")):
		return "is a picture; " + instead
	case bytes.HasPrefix(text, []byte("<")):
		return "is XML or HTML; " + instead
	case bytes.HasPrefix(text, []byte("{")):
		return ofJSON(text)
	}
	return ""
}

// Network reports whether data is the config.json of a network, even if a value of it is not JSON.
func Network(data []byte) bool {
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	return bytes.HasPrefix(text, []byte("{")) &&
		(bytes.Contains(text, []byte(`"model_type"`)) || bytes.Contains(text, []byte(`"architectures"`)))
}

// A Resulting configuration is what a result.json says of the configuration that it is of.
type Resulting struct {
	Schema any            `json:"schema"`
	Kind   string         `json:"kind"`
	Name   string         `json:"name"`
	Config map[string]any `json:"config"`
}

// Schema is the newest version of results that is read, that of psim's own.
const Schema = 1

// Problem says why the version of a result is not read; "" if it is.
func (r Resulting) Problem() string {
	version, number := r.Schema.(float64)
	switch {
	case r.Schema == nil || number && version >= 0 && version <= Schema && version == math.Trunc(version):
		return ""
	case number && version > Schema:
		return fmt.Sprintf("schema is %v; this psim reads results up to %d, so a newer one has written it", version,
			Schema)
	}
	return fmt.Sprintf("schema is %.40q; it must be a whole number, %d", fmt.Sprint(r.Schema), Schema)
}

// Result returns the configuration of a result; false for other data.
func Result(data []byte) (r Resulting, holds bool) {
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	hasKind := bytes.HasPrefix(text, []byte("{")) && bytes.Contains(text, []byte(`"kind"`))
	if !hasKind || json.Unmarshal(text, &r) != nil {
		return Resulting{}, false
	}
	return r, (r.Kind == "predicted" || r.Kind == "measured") && len(r.Config) > 0
}

// Positions returns the number of positions that the config.json of a network declares, of its text if it has
// several parts; 0 if it declares none.
func Positions(data []byte) int {
	type text struct {
		Longest   int `json:"max_position_embeddings"`
		Positions int `json:"n_positions"`
	}
	var file struct {
		text
		Text text `json:"text_config"`
	}
	if json.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &file) != nil {
		return 0 // reading the network reports it
	}
	return max(file.Longest, file.Positions, file.Text.Longest, file.Text.Positions)
}

// ofJSON says what an object is, or several, a line each.
func ofJSON(text []byte) string {
	const configuration = "a configuration is TOML, such as psim show gpipe prints"
	var object struct {
		Kind  string          `json:"kind"`
		Plans json.RawMessage `json:"plans"`
		Set   json.RawMessage `json:"set"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&object) // if types do not match, the fields stay empty
	switch {
	case object.Kind == "predicted" || object.Kind == "measured":
		return "is a result that holds no configuration; name the one that it was made from, a .toml file or an example"
	case object.Plans != nil:
		return "holds the plans of a search; name the configuration that was searched, a .toml file or an example"
	case object.Set != nil:
		return "holds the points of a sweep, which psim plot sweep reads; name the configuration that was swept, " +
			"a .toml file or an example"
	case err != nil && !json.Valid(text):
		return "begins as JSON does, and is damaged; " + configuration
	}
	return "is JSON; " + configuration
}

var (
	// action matches the first action of an order in PyTorch's notation.
	action = regexp.MustCompile(`^"?\(?[0-9]+(?:F|B|I|W|SEND|RECV|FORWARD|BACKWARD)`)
	// section matches a line that begins a section of a configuration.
	section = regexp.MustCompile(`(?m)^[ \t]*\[+[A-Za-z_][A-Za-z0-9_.]*\]+[ \t]*(?:#.*)?\r?$`)
)

// Likely says what text is that was found not to be TOML, by its name and its first line. It
// returns "" for what seems to be a configuration with a mistake.
func Likely(name, text string) string {
	ending := strings.ToLower(filepath.Ext(name))
	first, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"), "\n")
	first = strings.TrimSpace(first)
	is := func(endings ...string) bool { return slices.Contains(endings, ending) }
	switch {
	case action.MatchString(first):
		return fmt.Sprintf("is an order of actions, not a configuration; a configuration names it: write "+
			"schedule.file = %s, or give --set schedule.file=%s with one", strconv.Quote(name), name)
	case strings.HasPrefix(first, "rank,stream,kind,"):
		return "is a trace that psim wrote; name the configuration that it is of, a .toml file or an example"
	case is(".csv", ".tsv"):
		return "is a table, not a configuration; " + instead
	case is(".py", ".ipynb"):
		return "is a program, not a configuration; " + instead
	case is(".sh", ".bash", ".zsh", ".slurm", ".sbatch") || strings.HasPrefix(first, "#!"):
		return "is a script; psim import makes a configuration of one that starts Megatron-LM; " + instead
	case is(".yaml", ".yml"):
		return "is YAML; a configuration is TOML, such as psim show gpipe prints"
	case is(".log", ".out", ".err"):
		return "is a log; psim import makes a configuration of one that Megatron-LM printed; " + instead
	case ending != ".toml" && !section.MatchString(text):
		return fmt.Sprintf("is not a configuration, which is TOML: it begins with %.40q; %s", first, instead)
	}
	return ""
}

// Folder says why a folder is not a configuration, and what in it may be meant.
func Folder(path string) string {
	if isResult(path) {
		return "is a folder of results of a search or a sweep; name the configuration that they were made from, a " +
			".toml file or an example"
	}
	return "is a directory; name a .toml file in it"
}

// ModelFolder reports whether a folder is that of a model: it has a config.json, and no results.
func ModelFolder(path string) bool { return !isResult(path) && hasFile(path, "config.json") }

// ResultFolder reports whether a folder has the result of a run.
func ResultFolder(path string) bool { return hasFile(path, "result.json") }

// isResult reports whether a folder has results.
func isResult(path string) bool {
	return slices.ContainsFunc([]string{"result.json", "plans.json", "sweep.jsonl"}, func(name string) bool {
		return hasFile(path, name)
	})
}

// hasFile reports whether a folder has a file.
func hasFile(path, name string) bool {
	_, err := os.Stat(filepath.Join(path, name))
	return err == nil
}
