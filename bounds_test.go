package psim_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bounds of the wall: what a newcomer can hold in the head. A feature that does not fit
// asks for a better room, not for a higher bound. An exception has its reason here.
const (
	mostFiles      = 25  // of a folder, tests aside
	mostExported   = 60  // names of a package at the top level, without methods and fields
	mostParameters = 4   // of a function; beyond, a struct
	mostColumns    = 120 // of a line, a tab counting 4
	deepestChain   = 10  // packages that import each other in a row
)

// roomier lists the exceptions.
var (
	moreFiles    = map[string]int{"cmd/psim/cli": 40}    // a file for every verb
	moreExported = map[string]int{"schedules/graph": 80} // the plain data that all of psim shares
)

// program returns the sources of the program by folder, without tests.
func program(t *testing.T) map[string][]source {
	folders := map[string][]source{}
	for _, s := range sources(t) {
		if !s.test() {
			folders[path.Dir(s.name)] = append(folders[path.Dir(s.name)], s)
		}
	}
	return folders
}

func TestFolders(t *testing.T) {
	for folder, files := range program(t) {
		if most := max(mostFiles, moreFiles[folder]); len(files) > most {
			t.Errorf("%s has %d files, more than %d", folder, len(files), most)
		}
		exported := 0
		for _, s := range files {
			for _, n := range s.names() {
				if n.receiver == "" && ast.IsExported(n.name) {
					exported++
				}
			}
		}
		if most := max(mostExported, moreExported[folder]); exported > most {
			t.Errorf("%s exports %d names, more than %d", folder, exported, most)
		}
	}
}

func TestParameters(t *testing.T) {
	for _, files := range program(t) {
		for _, s := range files {
			for _, d := range s.parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				n := 0
				for _, field := range f.Type.Params.List {
					n += max(1, len(field.Names))
				}
				if n > mostParameters {
					t.Errorf("%s: %s has %d parameters, more than %d", s.set.Position(f.Pos()), f.Name.Name, n, mostParameters)
				}
			}
		}
	}
}

func TestColumns(t *testing.T) {
	for _, files := range program(t) {
		for _, s := range files {
			text, err := os.ReadFile(s.name)
			require.NoError(t, err)
			for i, line := range strings.Split(string(text), "\n") {
				if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > mostColumns {
					t.Errorf("%s:%d has %d columns, more than %d", s.name, i+1, n, mostColumns)
				}
			}
		}
	}
}

// No chain of imports is longer than a reader can follow.
func TestImportChain(t *testing.T) {
	imports := map[string][]string{}
	for folder, files := range program(t) {
		for _, s := range files {
			for _, spec := range s.parsed.Imports {
				name, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if name == "psim" {
					imports[folder] = append(imports[folder], ".")
				} else if inside, ok := strings.CutPrefix(name, "psim/"); ok {
					imports[folder] = append(imports[folder], inside)
				}
			}
		}
	}
	longest := map[string][]string{}
	var chain func(folder string) []string
	chain = func(folder string) []string {
		if known, ok := longest[folder]; ok {
			return known
		}
		var below []string
		for _, name := range imports[folder] {
			if c := chain(name); len(c) > len(below) {
				below = c
			}
		}
		longest[folder] = append([]string{folder}, below...)
		return longest[folder]
	}
	for folder := range imports {
		if strings.HasPrefix(folder, "cmd/") || strings.HasPrefix(folder, "tools/") {
			continue // commands stand on top of the library
		}
		if c := chain(folder); len(c) > deepestChain {
			t.Errorf("%d packages in a row, more than %d: %s", len(c), deepestChain, strings.Join(c, " → "))
		}
	}
}

// An exported type name has one owner. Options and Error are what every package calls its own.
func TestOneOwner(t *testing.T) {
	owners := map[string][]string{}
	for folder, files := range program(t) {
		for _, s := range files {
			for _, d := range s.parsed.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.TYPE {
					continue
				}
				for _, spec := range g.Specs {
					ts := spec.(*ast.TypeSpec)
					if ts.Name.IsExported() && !ts.Assign.IsValid() && !slices.Contains(owners[ts.Name.Name], folder) {
						owners[ts.Name.Name] = append(owners[ts.Name.Name], folder)
					}
				}
			}
		}
	}
	for name, folders := range owners {
		if len(folders) > 1 && name != "Options" && name != "Error" {
			slices.Sort(folders)
			t.Errorf("type %s stands in %s: one noun, one owner", name, strings.Join(folders, " and "))
		}
	}
}

// clumsy finds manners of speech that have to be read twice: headless relatives, "so many" for a
// number, negation by "no" and "none", words that nobody says.
var clumsy = regexp.MustCompile(`\b(is|are) no\b|\b(is|are|has|have) (none|nobody)\b|\b(has|have) not[,.;:)]|\bof (whom|which)\b` +
	`|\b(tell|tells|told) (apart|of)\b|\b[Ll]ikewise\b|\bbut for\b|\bword of\b|\bby nobody\b|\bso many\b|\b[Bb]eside\b` +
	`|\b[Ww]ho (sends|waits|receives|has|holds)\b|\b[Ww]hat (has|lies|stands|lasts|remains|stays|comes|goes) `)

// plain finds phrases that clumsy would find and that are good English.
var plain = regexp.MustCompile(`\b[Tt]here (is|are) (no|none)\b|\bno (longer|such)\b|\b(all|each|both|one|some|parts) of which\b`)

// mostClumsy is a ceiling that only falls: it is the number of lines that clumsy finds today.
const mostClumsy = 24

func TestEnglish(t *testing.T) {
	var found []string
	check := func(at, text string) {
		for i, line := range strings.Split(text, "\n") {
			if clumsy.MatchString(plain.ReplaceAllString(line, "")) {
				found = append(found, fmt.Sprintf("%s, line %d of the text: %s", at, i+1, strings.TrimSpace(line)))
			}
		}
	}
	for _, files := range program(t) {
		for _, s := range files {
			for _, group := range s.parsed.Comments {
				check(s.set.Position(group.Pos()).String(), group.Text())
			}
			ast.Inspect(s.parsed, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					check(s.set.Position(literal.Pos()).String(), literal.Value)
				}
				return true
			})
		}
	}
	for _, pattern := range []string{"*.md", "*/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if name == "CHANGELOG.md" {
				continue // history
			}
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			check(name, string(text))
		}
	}
	switch {
	case len(found) > mostClumsy:
		t.Errorf("%d clumsy lines, more than %d:\n%s", len(found), mostClumsy, strings.Join(found, "\n"))
	case len(found) < mostClumsy:
		t.Errorf("%d clumsy lines are left: lower mostClumsy to that", len(found))
	}
}

// Every word of the glossary is defined by the type that it names, and there are at most 30.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	_, words, ok := strings.Cut(string(text), "| word | owner | meaning |\n|---|---|---|\n")
	require.True(t, ok)
	words, _, _ = strings.Cut(words, "\n\n")
	rows := strings.Split(words, "\n")
	require.LessOrEqual(t, len(rows), 30)
	types := map[string]bool{}
	for _, files := range program(t) {
		for _, s := range files {
			for _, n := range s.names() {
				if !n.function {
					types[s.parsed.Name.Name+"."+n.name] = true
				}
			}
		}
	}
	for _, row := range rows {
		owner := strings.Trim(strings.Split(row, "|")[2], " `")
		require.True(t, types[owner], "%s is not a type", owner)
	}
}

// Every file and folder that ARCHITECTURE.md names exists.
func TestArchitectureNames(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`([a-z0-9]+(?:/[A-Za-z0-9_.]+)+)`").FindAllStringSubmatch(string(text), -1) {
		_, err := os.Stat(m[1])
		require.NoError(t, err)
	}
}
