// Package jsonfile reads the JSON files of results, with errors that name the line and the
// column.
package jsonfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"psim/internal/csvfile"
)

// MostBytes bounds the size of a file of results.
const MostBytes = 1 << 30

// Read reads a file that holds one JSON object. It reads at most the given number of bytes.
func Read(r io.Reader, most int64, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, most))
	switch {
	case err != nil:
		return err
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("the file is empty: run again what wrote it")
	}
	return Unmarshal(data, into)
}

// Unmarshal reads a JSON value like json.Unmarshal, and adds the place to its errors.
func Unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		if name, word := nonNumber(data, syntax.Offset); word != "" {
			return at(data, syntax.Offset, name+" is "+word+", which JSON does not have: give its value")
		}
		text := err.Error()
		if int(syntax.Offset) >= len(data) {
			text = "the JSON ends too early"
		}
		return at(data, syntax.Offset, text+csvfile.Damaged)
	case errors.As(err, &kind):
		value, _, _ := strings.Cut(kind.Value, " ")
		text := fmt.Sprintf("%s is a JSON %s; it must be %s", kind.Field, value, expected(kind.Type.Kind()))
		return at(data, kind.Offset, text)
	}
	return err
}

// nonNumber returns the field and the word at which a syntax error is, if Python writes the word for a
// number that JSON does not have.
func nonNumber(data []byte, offset int64) (name, word string) {
	begin := max(0, int(offset)-1)
	for _, word := range []string{"Infinity", "NaN"} {
		if !bytes.HasPrefix(data[begin:], []byte(word)) {
			continue
		}
		before, negative := bytes.CutSuffix(data[:begin], []byte("-"))
		if negative {
			word = "-" + word
		}
		if name, ok := field(before); ok {
			return cmp.Or(name, "the file"), word
		}
	}
	return "", ""
}

// A level is an object or an array around a place in a text.
type level struct {
	key   string // the last of an object
	index int    // of the next element of an array; -1 for an object
	keyed bool   // the value of the key is next
}

// field names the field whose value follows a text that is JSON up to there, such as ranks[0].busy_s,
// and reports whether a value follows.
func field(before []byte) (string, bool) {
	var path []level
	decoder := json.NewDecoder(bytes.NewReader(before))
	ended := func() { // a value has ended
		if n := len(path) - 1; n >= 0 && path[n].index >= 0 {
			path[n].index++
		} else if n >= 0 {
			path[n].keyed = false
		}
	}
	for {
		token, err := decoder.Token()
		if err != nil {
			return nameOf(path)
		}
		switch n := len(path) - 1; {
		case token == json.Delim('{'):
			path = append(path, level{index: -1})
		case token == json.Delim('['):
			path = append(path, level{})
		case token == json.Delim('}'), token == json.Delim(']'):
			path = path[:n]
			ended()
		case n >= 0 && path[n].index < 0 && !path[n].keyed:
			path[n].key, path[n].keyed = fmt.Sprint(token), true
		default:
			ended()
		}
	}
}

// nameOf writes the name of the field that a path ends at, and reports whether its value is next.
func nameOf(path []level) (string, bool) {
	name, value := "", true
	for _, l := range path {
		value = l.index >= 0 || l.keyed
		if l.index >= 0 {
			name += fmt.Sprintf("[%d]", l.index)
		} else {
			name += "." + l.key
		}
	}
	return strings.TrimPrefix(name, "."), value
}

// at puts a place before the text of an error.
func at(data []byte, offset int64, text string) error {
	before := string(data[:min(int(offset), len(data))])
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %s", line, max(1, column), strings.TrimPrefix(text, "json: "))
}

// expected describes the JSON that a Go value of a kind is read from.
func expected(kind reflect.Kind) string {
	switch kind {
	case reflect.Int, reflect.Int64:
		return "a whole number below 2⁶³"
	case reflect.Float64:
		return "a number below 1.8e308"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
