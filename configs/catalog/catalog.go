// Package catalog holds the catalogs of psim and reads them: TOML files whose tables are named
// entries, in the order of the file. It does not depend on the types of entries, so any package
// can keep a catalog here.
package catalog

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

//go:embed *.toml
var files embed.FS

// An Entry is a named table of a catalog, decoded.
type Entry[T any] struct {
	Name  string
	Value T
}

// Read decodes a catalog, such as "devices". The files are part of the program, so Read panics if
// one is malformed; tests read all of them.
func Read[T any](name string) []Entry[T] {
	return entries[T](name, text(name))
}

// Names lists the entries of a catalog without decoding it.
func Names(name string) (names []string) {
	for _, s := range sections(name) {
		names = append(names, s.name)
	}
	return names
}

// Texts lists the text of a key for every entry, "" if an entry lacks the key, without decoding.
func Texts(name, key string) (texts []string) {
	for _, s := range sections(name) {
		_, text, _ := strings.Cut(s.text, "\n"+key+" = \"")
		if long, ok := strings.CutPrefix(text, `""`); ok {
			text, _, _ = strings.Cut(long, `"""`)
		} else {
			text, _, _ = strings.Cut(text, "\"\n")
			text = strings.ReplaceAll(text, `\"`, `"`)
		}
		texts = append(texts, Fold(text))
	}
	return texts
}

// ByName returns a function that finds an entry of a catalog by its name and decodes it on first
// use, without the table named source, which holds the sources of its values: these are most of the text.
func ByName[T any](name string) func(entry string) (T, bool) {
	known := sync.OnceValue(func() map[string]func() T {
		all := map[string]func() T{}
		for _, s := range sections(name) {
			all[s.name] = sync.OnceValue(func() T { return entries[T](name, s.values())[0].Value })
		}
		return all
	})
	return func(entry string) (value T, ok bool) {
		decode, ok := known()[entry]
		if ok {
			value = decode()
		}
		return value, ok
	}
}

// A section is the text of an entry, with the tables in it.
type section struct{ name, text string }

// sections cuts a catalog into its entries.
func sections(name string) (list []section) {
	rest := text(name)
	begin := len(rest) // of the entry that is read
	for at := 0; at < len(rest); {
		line := rest[at:]
		if end := strings.IndexByte(line, '\n') + 1; end > 0 {
			line = line[:end]
		}
		header, isTable := strings.CutPrefix(strings.TrimSuffix(line, "]\n"), "[")
		quoted := strings.Trim(header, `"`)
		if isTable && (len(quoted) < len(header) || !strings.Contains(header, ".")) {
			list = append(list, section{name: quoted})
			begin = at
		}
		at += len(line)
		if list != nil {
			list[len(list)-1].text = rest[begin:at]
		}
	}
	return list
}

// values returns the text without the table named source.
func (s section) values() string {
	var kept strings.Builder
	keep := true
	for line := range strings.Lines(s.text) {
		if strings.HasPrefix(line, "[") {
			keep = !strings.HasSuffix(line, ".source]\n")
		}
		if keep {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func text(name string) string {
	data, err := files.ReadFile(name + ".toml")
	if err != nil {
		panic(err)
	}
	return string(data)
}

func entries[T any](name, text string) (list []Entry[T]) {
	tables := map[string]T{}
	meta, err := toml.Decode(text, &tables)
	if err != nil || len(meta.Undecoded()) > 0 {
		panic(fmt.Sprintf("%s.toml: %v, unknown keys %v", name, err, meta.Undecoded()))
	}
	for _, key := range meta.Keys() {
		if len(key) == 1 {
			list = append(list, Entry[T]{key[0], tables[key[0]]})
		}
	}
	return list
}

// Decode reads a file with a single entry, and refuses keys that its type does not have.
func Decode(text string, into any) error {
	meta, err := toml.Decode(text, into)
	if err == nil && len(meta.Undecoded()) > 0 {
		err = fmt.Errorf("unknown keys %v", meta.Undecoded())
	}
	return err
}

// Fold joins the lines of a text, with one space between words. Paragraphs, which empty lines
// separate, are kept.
func Fold(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(p), " ")
	}
	return strings.TrimSpace(strings.Join(paragraphs, "\n\n"))
}

// FoldAll folds every text of a table.
func FoldAll(sources map[string]string) {
	for key, text := range sources {
		sources[key] = Fold(text)
	}
}

// A Text may have several lines in a file; they are folded when it is read.
type Text string

// UnmarshalText folds a text.
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text(Fold(string(text)))
	return nil
}
