package launch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A shell expands a script without running anything.
type shell struct {
	variables map[string]expand.Variable
	functions map[string]*syntax.Stmt
	files     []Input
	arguments *arguments
	starts    [][]string       // command lines that start a training
	written   map[string]Input // files that here-documents write, by name without folder
	depth     int
	label     string
	ended     bool // by exit
	turns     int  // of loops and of branches that are tried, so far
	calls     int  // of functions, so far
	// jump is break, continue or return until its loop or function has ended, and levels of how many loops.
	jump   string
	levels int
	locals map[string]expand.Variable // of the function that is run, as they were before it; nil outside of one
}

// Get returns a variable.
func (s *shell) Get(name string) expand.Variable { return s.variables[name] }

// Each yields all variables.
func (s *shell) Each(yield func(string, expand.Variable) bool) {
	for name, v := range s.variables {
		if !yield(name, v) {
			return
		}
	}
}

// Set takes a variable that an expansion sets.
func (s *shell) Set(name string, v expand.Variable) error {
	s.variables[name] = v
	return nil
}

// note says what the script leaves open.
func (s *shell) note(at syntax.Node, format string, values ...any) {
	text := fmt.Sprintf("line %d: ", at.Pos().Line()) + fmt.Sprintf(format, values...)
	if s.label != s.arguments.label {
		text = s.label + ": " + text
	}
	if !slices.Contains(s.arguments.notes, text) {
		s.arguments.notes = append(s.arguments.notes, text)
	}
}

// config returns how words are expanded: commands are never run, and no folder is read.
func (s *shell) config() *expand.Config {
	return &expand.Config{
		Env: s,
		CmdSubst: func(w io.Writer, c *syntax.CmdSubst) error {
			text, whole := source(c), printed(c)
			if folderOf.MatchString(text) {
				_, err := io.WriteString(w, ".")
				return err
			}
			if known := countedDevices.MatchString(whole); known {
				s.note(c, "%s is not run: --devices N says how many devices there are", text)
			} else {
				s.note(c, "%s is not run: it counts as empty", text)
			}
			return nil
		},
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return "", nil },
	}
}

// mostWords and mostText limit what words and variables of a script may grow to.
const (
	mostWords = 100_000
	mostText  = 1 << 20
)

// fields expands words. It ends where they become too many, as {1..999999999} would.
func (s *shell) fields(words ...*syntax.Word) (list []string, err error) {
	for _, word := range words {
		s.unset(word)
	}
	size := 0
	if err := s.tooLong(words...); err != nil {
		return nil, err
	}
	for field, err := range expand.FieldsSeq(s.config(), words...) {
		if err != nil {
			return nil, err
		}
		size += len(field)
		if list = append(list, field); len(list) > mostWords || size > mostText {
			return nil, fmt.Errorf("its words become more than %d, or longer than %d bytes", mostWords, mostText)
		}
	}
	return list, nil
}

// unset notes the variables of a word that have no value and no default.
func (s *shell) unset(word *syntax.Word) {
	syntax.Walk(word, func(n syntax.Node) bool {
		if p, ok := n.(*syntax.ParamExp); ok && p.Exp == nil && p.Param != nil && !s.Get(p.Param.Value).IsSet() &&
			!strings.ContainsAny(p.Param.Value, "@*#?$!-0") {
			s.note(p, "$%s is not set: it counts as empty", p.Param.Value)
		}
		return true
	})
}

// folderOf finds commands that say where a file is: files are found by their names alone.
var folderOf = regexp.MustCompile(`^\$\((dirname|realpath|readlink|pwd|cd) `)

// countedDevices are commands that say where a job runs.
var countedDevices = regexp.MustCompile(`nvidia-smi|scontrol|SLURM`)

// printed returns a piece of a script as it stands there, on one line.
func printed(n syntax.Node) string {
	var b strings.Builder
	if syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) != nil {
		return "a command"
	}
	return b.String()
}

// source returns a piece of a script for a message, a long one in part.
func source(n syntax.Node) string {
	text := []rune(printed(n))
	if len(text) < 80 {
		return string(text)
	}
	return string(text[:76]) + " …"
}

// repeatedList is a list of Python, such as [0]*3+[1]*58. Within an array bash takes it for a word, and the parser for
// an index.
var repeatedList = regexp.MustCompile(`([\s(])((?:\[[01]\]\*\d+\+?)+)`)

// parsed reads a script.
func parsed(data []byte) (*syntax.File, error) {
	parse := func(data []byte) (*syntax.File, error) {
		return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(data), "")
	}
	file, err := parse(data)
	if err != nil && repeatedList.Match(data) {
		return parse(repeatedList.ReplaceAll(data, []byte("$1'$2'")))
	}
	return file, err
}

// read goes through the statements of a file or of a string.
func (s *shell) read(f Input) error {
	if s.depth++; s.depth > deepest {
		return fmt.Errorf("%s: scripts read each other more than %d deep", f.Label, deepest)
	}
	before := s.label
	s.label = f.Label
	defer func() { s.depth, s.label = s.depth-1, before }()
	parsed, err := parsed(f.Data)
	if err != nil {
		var at syntax.ParseError
		if errors.As(err, &at) {
			return fmt.Errorf("%s:%d: is not a script of bash: %s", f.Label, at.Pos.Line(), at.Text)
		}
		return fmt.Errorf("%s: is not a script of bash: %s", f.Label, err)
	}
	return s.all(parsed.Stmts)
}

func (s *shell) all(list []*syntax.Stmt) error {
	for _, stmt := range list {
		if s.ended || s.jump != "" {
			return nil
		}
		if known, err := s.document(stmt); known || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := s.statement(stmt); err != nil {
			return err
		}
	}
	return nil
}

// statement follows what a statement does to variables, and notes the trainings that it starts.
func (s *shell) statement(stmt *syntax.Stmt) error {
	switch c := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		return s.call(c)
	case *syntax.DeclClause:
		if c.Variant.Value != "export" && c.Variant.Value != "readonly" {
			s.localize(c.Args)
		}
		return s.assign(c.Args)
	case *syntax.Block:
		return s.all(c.Stmts)
	case *syntax.Subshell:
		return s.apart(func() error { return s.all(c.Stmts) })
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			_, err := s.joined(c)
			return err
		}
		return s.apart(func() error {
			if err := s.statement(c.X); err != nil {
				return err
			}
			return s.statement(c.Y)
		})
	case *syntax.ArithmCmd:
		if _, err := expand.Arithm(s.config(), c.X); err != nil {
			return s.wrong(c, err)
		}
	case *syntax.FuncDecl:
		s.functions[c.Name.Value] = c.Body
	case *syntax.IfClause:
		return s.branch(c)
	case *syntax.CaseClause:
		return s.choose(c)
	case *syntax.ForClause:
		return s.loop(stmt, c)
	case *syntax.WhileClause:
		return s.while(stmt, c)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			if _, err := expand.Arithm(s.config(), x); err != nil {
				return s.wrong(c, err)
			}
		}
	}
	return nil
}

// wrong says why a line cannot be expanded.
func (s *shell) wrong(at syntax.Node, err error) error {
	return fmt.Errorf("%s:%d: %s", s.label, at.Pos().Line(), strings.TrimSuffix(err.Error(), ":"))
}

// branch follows the branch of a condition that is known.
func (s *shell) branch(c *syntax.IfClause) error {
	if len(c.Cond) == 0 { // else
		return s.all(c.Then)
	}
	if err := s.all(c.Cond[:len(c.Cond)-1]); err != nil || s.ended || s.jump != "" {
		return err
	}
	holds, known := s.holds(c.Cond[len(c.Cond)-1])
	switch {
	case !known:
		return s.both(c)
	case holds:
		return s.all(c.Then)
	case c.Else != nil:
		return s.branch(c.Else)
	}
	return nil
}

// call follows a command: a function, a file that is read, a string that is a script, or a training.
func (s *shell) call(c *syntax.CallExpr) error {
	if len(c.Args) == 0 {
		return s.assign(c.Assigns)
	}
	words, err := s.fields(c.Args...)
	if err != nil {
		return s.wrong(c, err)
	}
	if len(words) == 0 {
		return nil
	}
	if body := s.functions[words[0]]; body != nil {
		return s.called(c, body, words)
	}
	if s.builtin(words) {
		return nil
	}
	if words[0] == "eval" {
		return s.read(Input{Label: s.label, Data: []byte(strings.Join(words[1:], " "))})
	}
	if (words[0] == "source" || words[0] == ".") && len(words) > 1 {
		return s.include(c, words[1:])
	}
	for _, word := range words[1:] { // bash -c "…"
		if strings.ContainsAny(word, " \n") &&
			(strings.Contains(word, "--num-layers") || strings.Contains(word, "torchtitan.train") ||
				startsTrainer.MatchString(word)) {
			return s.read(Input{Label: s.label, Data: []byte(word)})
		}
	}
	s.launcher(words)
	if f, rest := s.runs(words); f != nil {
		defer s.positional(rest)()
		return cmp.Or(s.assign(c.Assigns), s.read(*f))
	}
	sized := func(w string) bool { return w == "--num-layers" || strings.HasPrefix(w, "--num-layers=") }
	if trains(words) && (slices.ContainsFunc(words, sized) || commandOf(words) != nil) {
		s.starts = append(s.starts, words)
	}
	return nil
}

// called runs a function with its arguments.
func (s *shell) called(c *syntax.CallExpr, body *syntax.Stmt, words []string) error {
	if s.depth++; s.depth > deepest {
		return fmt.Errorf("%s:%d: %s: functions call each other more than %d deep", s.label, c.Pos().Line(), words[0],
			deepest)
	}
	if s.calls++; s.calls > mostCalls {
		return fmt.Errorf("%s:%d: %s: functions are called more than %d times", s.label, c.Pos().Line(), words[0],
			mostCalls)
	}
	restore := s.positional(words[1:])
	defer func() { s.depth--; restore() }()
	return s.function(body)
}

// trains reports whether a command may be a training: it runs a program or a module of Python, or trl.
func trains(words []string) bool {
	python := func(w string) bool { return strings.HasSuffix(w, ".py") || w == "-m" }
	return (words[0] == "trl" || slices.ContainsFunc(words, python)) &&
		!slices.Contains([]string{"echo", "printf", "cat", "rm", "cp", "mv", "ls", "grep"}, words[0])
}

// include reads a file that the user gives as well, or that the script writes: the first word, with arguments after it.
func (s *shell) include(at syntax.Node, words []string) error {
	name := words[0]
	if len(words) > 1 {
		defer s.positional(words[1:])()
	}
	if f, ok := s.written[path.Base(name)]; ok {
		return s.read(f)
	}
	if f := s.given(name); f != nil {
		return s.read(*f)
	}
	s.note(at, "%s is not given: name it after the script if it sets what the training takes", name)
	return nil
}

// builtin runs a command of bash's own.
func (s *shell) builtin(words []string) bool {
	switch {
	case words[0] == "exit":
		s.ended = true
	case words[0] == "break" || words[0] == "continue" || words[0] == "return":
		s.jump, s.levels = words[0], 1
		if len(words) > 1 && words[0] != "return" {
			if n, err := strconv.Atoi(words[1]); err == nil && n > 1 {
				s.levels = n
			}
		}
	case words[0] == "shift":
		s.shift(words[1:])
	case words[0] == "unset":
		for _, name := range words[1:] {
			delete(s.variables, name)
		}
	case words[0] == "set" && slices.Contains(words, "--"):
		s.positional(words[slices.Index(words, "--")+1:])
	case words[0] == "set" && len(words) > 1 && !strings.ContainsAny(words[1][:min(1, len(words[1]))], "-+"):
		s.positional(words[1:])
	default:
		return false
	}
	return true
}
