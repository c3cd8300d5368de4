// Package jsonfile reads the JSON files of results, with errors that name the line and the
// column.
package jsonfile

import (
	"bytes"
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
