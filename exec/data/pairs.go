package data

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"psim/internal/csvfile"
	"psim/internal/nearest"
)

// A Pair is a sentence and its translation.
type Pair struct{ Source, Target string }

// The keys of a pair's strings, and a line as it should be.
const (
	sourceKey   = "de"
	targetKey   = "en"
	exampleLine = `{"de": "…", "en": "…"}`
)

// LoadPairs reads the pairs of a file as ReadPairs does.
func LoadPairs(path string, limit int) ([]Pair, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadPairs(file, path, limit)
}

// longestPair bounds the bytes of a line with a pair of sentences.
const longestPair = 1 << 20

// ReadPairs reads JSON lines: on each line one object with two strings, {"de": …, "en": …}, or
// that object under the key "translation". It ignores other keys and empty lines. The name is
// for errors. With a limit above 0 it stops after that many pairs.
func ReadPairs(r io.Reader, name string, limit int) ([]Pair, error) {
	lines := bufio.NewReaderSize(csvfile.LimitLines(r, longestPair), 1<<16)
	var pairs []Pair
	var end error
	for number := 1; end == nil && (limit <= 0 || len(pairs) < limit); number++ {
		var line []byte
		line, end = lines.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return nil, fmt.Errorf("%s:%d: %w", name, number, end)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		pair, err := parsePair(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		pairs = append(pairs, pair)
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s: no sentence pairs; expected lines like %s", name, exampleLine)
	}
	return pairs, nil
}

func parsePair(line []byte) (Pair, error) {
	if !utf8.Valid(line) {
		return Pair{}, errors.New("the line is not UTF-8")
	}
	object, err := parseObject(line)
	if err != nil {
		return Pair{}, fmt.Errorf("%w; expected %s", err, exampleLine)
	}
	_, hasSource := object[sourceKey]
	_, hasTarget := object[targetKey]
	if inner, ok := object["translation"]; ok && !hasSource && !hasTarget {
		if object, err = parseObject(inner); err != nil {
			return Pair{}, fmt.Errorf("under %q: %w; expected %s", "translation", err, exampleLine)
		}
	}
	source, err := stringAt(object, sourceKey)
	if err != nil {
		return Pair{}, err
	}
	target, err := stringAt(object, targetKey)
	return Pair{Source: source, Target: target}, err
}

// parseObject reads a JSON object, but not its values.
func parseObject(text []byte) (map[string]json.RawMessage, error) {
	var object map[string]json.RawMessage
	err := json.Unmarshal(text, &object)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("byte %d of the line is not JSON: %w", syntax.Offset, err)
	case err != nil || object == nil:
		return nil, errors.New("not a JSON object")
	}
	return object, nil
}

func stringAt(object map[string]json.RawMessage, key string) (string, error) {
	raw, ok := object[key]
	if !ok {
		return "", noKey(slices.Sorted(maps.Keys(object)), key)
	}
	if len(raw) == 0 || raw[0] != '"' {
		return "", fmt.Errorf("the value of %q is not a string", key)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("the value of %q: %w", key, err)
	}
	return text, nil
}

// noKey reports a missing key, and lists the keys of the object.
func noKey(have []string, key string) error {
	if len(have) == 0 {
		return fmt.Errorf("no key %q: the object is empty", key)
	}
	hint := nearest.Suggest(key, have)
	var names []string
	for _, k := range have[:min(len(have), 8)] {
		names = append(names, fmt.Sprintf("%.40q", k))
	}
	if len(have) > len(names) {
		names = append(names, "…")
	}
	return fmt.Errorf("no key %q; the object has %s%s", key, strings.Join(names, ", "), hint)
}

// openRegular opens a file. It refuses folders, devices and pipes, which could block or never
// end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	return os.Open(path)
}
