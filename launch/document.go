package launch

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// isShell reports whether a command runs scripts.
func isShell(word string) bool {
	return slices.Contains([]string{"bash", "sh", "sbatch"}, path.Base(word))
}

// document follows a here-document: a file that cat or tee writes, which later commands may run, or a script on the
// input of a shell. It returns false for other statements.
func (s *shell) document(stmt *syntax.Stmt) (known bool, err error) {
	at := slices.IndexFunc(stmt.Redirs, func(r *syntax.Redirect) bool { return r.Hdoc != nil })
	if at < 0 {
		return false, nil
	}
	text, err := expand.Document(s.config(), stmt.Redirs[at].Hdoc)
	if err != nil {
		return true, s.wrong(stmt, err)
	}
	if quotedMark(stmt.Redirs[at].Word) { // <<'EOF' expands nothing
		text = stmt.Redirs[at].Hdoc.Lit()
	}
	c, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok {
		return false, nil
	}
	words, err := s.fields(c.Args...)
	if err != nil || len(words) == 0 {
		return true, err
	}
	label := s.label
	var names []string
	if words[0] == "tee" {
		names = words[1:]
	}
	for _, r := range stmt.Redirs {
		if r.Hdoc == nil && (r.Op == syntax.RdrOut || r.Op == syntax.RdrClob) {
			if name, err := expand.Literal(s.config(), r.Word); err == nil {
				names = append(names, name)
			}
		}
	}
	switch {
	case words[0] == "cat" || words[0] == "tee":
		if s.written == nil {
			s.written = map[string]Input{}
		}
		for _, name := range names {
			s.written[path.Base(name)] = Input{Label: label, Data: []byte(text)}
		}
		return true, nil
	case slices.ContainsFunc(words, isShell):
		s.launcher(words)
		for _, header := range batchLine.FindAllStringSubmatch(text, -1) {
			s.launcher(strings.Fields(header[1]))
		}
		return true, s.read(Input{Label: label, Data: []byte(text)})
	}
	return false, nil
}

// runs returns the file that a command runs, if a here-document wrote it, and the arguments that it gets.
func (s *shell) runs(words []string) (*Input, []string) {
	for i, word := range words {
		f, ok := s.written[path.Base(word)]
		called := i == 0 || isShell(words[i-1])
		if ok && (called || strings.HasSuffix(word, ".sh")) {
			return &f, words[i+1:]
		}
		if f := s.given(word); f != nil && called && strings.HasSuffix(word, ".sh") {
			return f, words[i+1:]
		}
	}
	return nil, nil
}

// given returns the file of a name that the user gives as well; nil where there is none.
func (s *shell) given(name string) *Input {
	for i := range s.files {
		if path.Base(s.files[i].Label) == path.Base(name) {
			s.arguments.used = append(s.arguments.used, s.files[i].Label)
			return &s.files[i]
		}
	}
	return nil
}

// quotedMark reports whether the word that ends a here-document is quoted.
func quotedMark(word *syntax.Word) bool {
	return slices.ContainsFunc(word.Parts, func(p syntax.WordPart) bool { _, plain := p.(*syntax.Lit); return !plain })
}
