package psim_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A source is a file of the program, tests included.
type source struct {
	name   string // with slashes
	lines  int
	parsed *ast.File
	set    *token.FileSet
}

// test reports whether the file is a test, or of a package for tests.
func (s source) test() bool {
	return strings.HasSuffix(s.name, "_test.go") || slices.Contains(testPackages, path.Dir(s.name))
}

// sources parses all files.
func sources(t *testing.T) []source {
	var list []source
	for _, name := range goFiles(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, text, parser.ParseComments)
		require.NoError(t, err)
		list = append(list, source{name, strings.Count(string(text), "\n"), parsed, set})
	}
	return list
}

// Limits of a file, in lines, and of a function. Lines are at most 120 columns wide, so that
// a function takes more of them than where lines have no bound.
const (
	mostLines         = 400
	mostFunctionLines = 50
)

// returnsLiteral reports whether a function does nothing but return a composite literal.
func returnsLiteral(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) != 1 {
		return false
	}
	r, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return false
	}
	_, ok = r.Results[0].(*ast.CompositeLit)
	return ok
}

// Files and functions have few lines, tests aside. A function that only returns a literal, such
// as the settings of a section, is a table and has as many lines as the table has rows.
func TestLengths(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		if s.lines > mostLines {
			t.Errorf("%s has %d lines, more than %d", s.name, s.lines, mostLines)
		}
		for _, d := range s.parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || returnsLiteral(f) {
				continue
			}
			from, to := s.set.Position(f.Pos()), s.set.Position(f.End())
			if n := to.Line - from.Line + 1; n > mostFunctionLines {
				t.Errorf("%s: %s has %d lines, more than %d", from, f.Name.Name, n, mostFunctionLines)
			}
		}
	}
}

// A name is one that a file declares, of a package or of a type of it.
type name struct {
	at       token.Position
	receiver string // of a method
	name     string
	doc      string // without the comment's marks
	function bool
}

// names lists what a file declares at the top.
func (s source) names() []name {
	var list []name
	for _, d := range s.parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			receiver := ""
			if d.Recv != nil {
				receiver = typeName(d.Recv.List[0].Type)
			}
			list = append(list, name{s.set.Position(d.Pos()), receiver, d.Name.Name, d.Doc.Text(), true})
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					list = append(list, name{s.set.Position(spec.Pos()), "", spec.Name.Name, d.Doc.Text() + spec.Doc.Text(), false})
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						list = append(list, name{s.set.Position(n.Pos()), "", n.Name, d.Doc.Text() + spec.Doc.Text() + spec.Comment.Text(), false})
					}
				}
			}
		}
	}
	return list
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// Every exported name has a comment; of a group of constants or variables one is
// enough. So has every package.
func TestDocumented(t *testing.T) {
	packages := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		packages[path.Dir(s.name)] = packages[path.Dir(s.name)] || s.parsed.Doc != nil
		for _, n := range s.names() {
			if ast.IsExported(n.name) && (n.receiver == "" || ast.IsExported(n.receiver)) && n.doc == "" {
				t.Errorf("%s: %s has no comment", n.at, n.name)
			}
		}
	}
	for folder, documented := range packages {
		require.True(t, documented, "package %s has no comment", folder)
	}
}

// The comment on a function begins with its name and what it does, not "x is".
func TestCommentsDefine(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, n := range s.names() {
			if n.function && !ast.IsExported(n.name) && regexp.MustCompile(`^`+regexp.QuoteMeta(n.name)+` (is|are)\b`).MatchString(n.doc) {
				t.Errorf(`%s: the comment on %s begins "x is"; begin with what it does`, n.at, n.name)
			}
		}
	}
}

// called lists exported functions and methods that no code of psim calls, and who does.
var called = map[string]string{
	"MarshalJSON":   "encoding/json",
	"UnmarshalJSON": "encoding/json",
	"FillString":    "gonum's drawing, of a page of a PDF",
	"GobEncode":     "encoding/gob",
	"GobDecode":     "encoding/gob",
}

// No exported function or method is without a caller outside tests. A name that is
// used anywhere else counts, so that two of one name are one.
func TestCalled(t *testing.T) {
	used, declared := map[string]bool{}, map[string][]name{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		defining := map[*ast.Ident]bool{}
		for _, d := range s.parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				defining[f.Name] = true
			}
		}
		ast.Inspect(s.parsed, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !defining[id] {
				used[id.Name] = true
			}
			return true
		})
		for _, n := range s.names() {
			if n.function && ast.IsExported(n.name) {
				declared[n.name] = append(declared[n.name], n)
			}
		}
	}
	for id, list := range declared {
		if used[id] || called[id] != "" {
			continue
		}
		for _, n := range list {
			t.Errorf("%s: nothing but tests calls %s", n.at, id)
		}
	}
	for id := range called {
		require.False(t, used[id], "%s is called; take it off the list", id)
		require.NotEmpty(t, declared[id], "%s is gone; take it off the list", id)
	}
}
