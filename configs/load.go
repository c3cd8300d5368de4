package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"psim/configs/foreign"
	"psim/costmodel/hfconfig"
	"psim/internal/setting"
)

// maxSize bounds a configuration, and maxNetwork a config.json, which may name thousands of labels.
const (
	maxSize    = 1 << 20
	maxNetwork = 8 << 20
)

// Load reads an experiment: a file, an embedded example by its bare name, or a network by its
// config.json or the name of its preset (model:NAME if a file or an example has the same). sets are
// settings KEY=VALUE with dotted keys, which replace those of the file and are applied in order.
func Load(pathOrName string, sets ...string) (*Config, error) {
	return LoadOn(pathOrName, Target{}, sets...)
}

// Parse reads an experiment from memory; label names it in errors.
func Parse(label string, data []byte, sets ...string) (*Config, error) {
	return ParseOn(label, data, Target{}, sets...)
}

// ParseOn does what Parse does, for a target.
func ParseOn(label string, data []byte, on Target, sets ...string) (*Config, error) {
	return parse(located{label: label, data: data}, on, sets)
}

func parse(t located, on Target, sets []string) (*Config, error) {
	if err := checkText(t.label, t.data); err != nil {
		return nil, err
	}
	c := defaults()
	c.name, c.folder, c.devices = nameOf(t), t.folder, on.Devices
	if err := c.add(t.label, string(t.data), !t.assumed); err != nil {
		return nil, err
	}
	c.sources[0].assumed, c.sources[0].derived = t.assumed, t.assumed
	if err := c.target(on); err != nil {
		return nil, err
	}
	for _, set := range sets {
		if err := c.set(set); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(c.assumePrecision(), c.assumePlan(), c.lay()); err != nil {
		return nil, err
	}
	return c, c.validate()
}

// nameOf returns the name of an experiment. A config.json is called as its folder is.
func nameOf(t located) string {
	if t.named != "" {
		return t.named
	}
	if folder := filepath.Base(t.folder); t.assumed && filepath.Base(t.label) == "config.json" &&
		strings.Trim(folder, "./") != "" {
		return folder
	}
	base := filepath.Base(t.label)
	if t.assumed {
		base = strings.TrimSuffix(base, ".json")
	}
	return strings.TrimSuffix(base, ".toml")
}

// untilWriter is how long a named pipe may have no writer: a shell starts one in less.
const untilWriter = 2 * time.Second

// readFile reads a file or a pipe of at most a number of bytes.
func readFile(path string, most int) ([]byte, error) {
	flags, wait := os.O_RDONLY, time.Duration(0)
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		flags, wait = flags|syscall.O_NONBLOCK, untilWriter // as opening one without a writer never ends
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	for began := time.Now(); err == nil && len(data) == 0 && time.Since(began) < wait; time.Sleep(time.Millisecond) {
		data, err = io.ReadAll(io.LimitReader(f, int64(most)+1)) // empty until there is a writer
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	case len(data) > most:
		return nil, errors.New(tooLarge(most))
	case len(data) == 0 && wait > 0:
		return nil, errors.New("is a pipe that nothing is written to")
	}
	return data, nil
}

func tooLarge(most int) string { return fmt.Sprintf("has more than %d bytes; that is too large", most) }

// readBeside reads a file that the configuration names, relative to its own folder, of at most a
// number of bytes.
func (c *Config) readBeside(path string, most int) ([]byte, error) {
	return c.readNamed(path, c.resolve(path), most)
}

// resolve returns the path of a file that the configuration names.
func (c *Config) resolve(path string) string {
	if !filepath.IsAbs(path) && c.folder != "" {
		return filepath.Join(c.folder, path)
	}
	return path
}

// Files lists the paths of the files that the experiment reads, its own first.
func (c *Config) Files() (paths []string) {
	if c.folder != "" {
		paths = append(paths, c.sources[0].label)
	}
	for _, path := range []string{c.Schedule.File, c.Model.File, c.Data.Lengths.File} {
		if path != "" {
			paths = append(paths, c.resolve(path))
		}
	}
	if c.Machine.Site != "" {
		paths = append(paths, c.sitePath())
	}
	if path := c.Machine.File; path != "" {
		paths = append(paths, c.machinePath(path, c.sources[c.machineSource()]))
	}
	return paths
}

// readRegular does what readFile does, and refuses folders and devices.
func readRegular(path string, most int) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		kind := "device"
		if info.IsDir() {
			kind = "directory"
		}
		return nil, errors.New("is not a file but a " + kind)
	}
	return readFile(path, most)
}

// checkText refuses data that is not a text.
func checkText(label string, data []byte) error {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return &Error{Label: label, Problem: "is empty; a configuration needs at least [schedule] with [times] or " +
			"[model] (psim run gpipe shows an example)"}
	case foreign.Certain(data) != "":
		return &Error{Label: label, Problem: foreign.Certain(data)}
	}
	for n, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			return &Error{Label: label, Line: n + 1, Col: 1, Problem: "the line is not UTF-8; save the file as UTF-8"}
		}
	}
	if e := checkDepth(label, string(data)); e != nil {
		return e
	}
	return nil
}

// add decodes one more text, whose keys replace earlier ones.
func (c *Config) add(label, data string, lines bool) error {
	s, err := newSource(label, data, lines)
	if err != nil {
		return err
	}
	c.sources = append(c.sources, s)
	s.outOfRange, err = s.decode(c)
	return err
}

var setPattern = regexp.MustCompile(`^([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+)\s*=(.*)$`)

// set applies KEY=VALUE. The value is TOML where it parses as such, and a
// string otherwise, so that quotes may be left out.
func (c *Config) set(over string) error {
	if strings.ContainsFunc(over, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return &Error{Label: over, Override: true, Problem: "has a control character; type the value anew"}
	}
	m := setPattern.FindStringSubmatch(strings.TrimSpace(over))
	if m == nil {
		return &Error{Label: over, Override: true, Problem: "must be KEY=VALUE with a dotted key, " +
			"such as schedule.microbatches=16"}
	}
	key, value := m[1], strings.TrimSpace(m[2])
	if value == "" {
		return &Error{Label: over, Override: true, Key: key, Problem: "has no value"}
	}
	text := key + " = " + value
	if e := checkDepth(over, text); e != nil {
		e.Override, e.Line, e.Col = true, 0, 0
		return e
	}
	if _, err := newSource(over, text, false); err != nil {
		var e *Error
		if errors.As(err, &e) && strings.HasPrefix(e.Problem, value+" is out of range") {
			e.Key = key // a number that is too large, not a string
			return e
		}
		text = fmt.Sprintf("%s = %q", key, value)
	}
	return c.add(over, text, false)
}

// keyAtStart finds the key that an option struct's error begins with, if any.
var keyAtStart = regexp.MustCompile(`^([a-z0-9_.]+)(?: = | is |: )`)

// problem turns an error of the package that owns a section into an Error
// with a position. By convention such errors begin with the key they mean.
func (c *Config) problem(section string, err error) error {
	if known := (*Error)(nil); errors.As(err, &known) && c.hasSource(known.Label) {
		return known // it has its place
	}
	text, key := err.Error(), section
	if inFile := c.inFileWords(section, text); inFile != "" {
		text = fmt.Sprintf("file = %q: %s", c.Model.File, inFile)
	}
	if m := keyAtStart.FindStringSubmatch(text); m != nil && setting.IsKey(Config{}, section+"."+m[1]) {
		key, text = section+"."+m[1], section+"."+text
	}
	keys := []string{key, section}
	if from := c.laidBy(key); from != "" && !c.Defined(key) {
		text += " (" + from + " sets it)"
		keys = []string{"train.stack", "model.kernels", "model.preset", section}
	}
	quoted := strings.HasPrefix(text, key+" = ") // the text quotes a value, so the key is not a table here
	for _, k := range keys {
		for i := len(c.sources) - 1; i >= 0; i-- {
			if s := c.sources[i]; s.defines(k) && !(quoted && k == key && s.isTable(k)) {
				if file := fmt.Sprintf("model.file = %q: ", c.Model.File); s.assumed && strings.HasPrefix(text, file) {
					return &Error{Label: s.label, Problem: text[len(file):]} // the label is that file
				}
				at, _ := s.find(k)
				return s.at(at.value, key, text)
			}
		}
	}
	return &Error{Label: c.sources[0].label, Key: key, Problem: text}
}

// inFileWords returns an error about a key of [model] that a config.json gives in that file's words; "" for others.
func (c *Config) inFileWords(section, text string) string {
	m := keyAtStart.FindStringSubmatch(text)
	if section != "model" || c.Model.File == "" || m == nil || m[1] == "file" || c.Defined("model."+m[1]) {
		return ""
	}
	data, err := c.readBeside(c.Model.File, maxNetwork)
	if err != nil {
		return ""
	}
	if words := hfconfig.InWords(data, errors.New(text)).Error(); words != text {
		return words
	}
	return ""
}

// hasSource reports whether a label is that of a source of the configuration.
func (c *Config) hasSource(label string) bool {
	return slices.ContainsFunc(c.sources, func(s *source) bool { return s.label == label })
}

// problemf does what problem does, with an error made of a format and its arguments.
func (c *Config) problemf(section, format string, args ...any) error {
	return c.problem(section, fmt.Errorf(format, args...))
}

// An Error is a problem with one key of a configuration.
type Error struct {
	Label     string // the file, or the setting KEY=VALUE over it
	Override  bool   // the label is such a setting
	Line, Col int    // 0 if the position is unknown
	Key       string // dotted; empty if the problem is about the whole file
	Problem   string
	Cause     error // such as os.ErrNotExist; may be nil
}

// Unwrap returns what caused the error.
func (e *Error) Unwrap() error { return e.Cause }

// Error prints "file:line:column: key: problem", without the parts that are unknown.
func (e *Error) Error() string {
	var b strings.Builder
	if rest, repeated := e.afterLabel(); repeated {
		return shorten(e.Label + rest)
	}
	b.WriteString(e.Label)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Key != "" && !strings.HasPrefix(e.Problem, e.Key) {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	return shorten(b.String())
}

// afterLabel reports whether the problem repeats the name of the file that the label sets, and
// returns the text after that name.
func (e *Error) afterLabel() (rest string, repeated bool) {
	key, value, _ := strings.Cut(e.Label, "=")
	for _, form := range []string{key + " = " + strconv.Quote(value), key + ": " + value} {
		rest, repeated = strings.CutPrefix(e.Problem, form)
		if e.Override && repeated && strings.HasSuffix(key, ".file") && strings.IndexAny(rest, ":,") == 0 {
			return rest, true
		}
	}
	return "", false
}

// shorten cuts the middle out of a message that quotes an enormous value.
func shorten(text string) string {
	const longest = 2000
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest/2], "") + " […] " + strings.ToValidUTF8(text[len(text)-longest/4:], "")
}
