package coursefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// decode reads JSON, and says what is wrong with it in words for a user.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s is a JSON %s; it must be %s", kind.Field, kind.Value, expected(kind))
	case errors.As(err, &kind):
		return fmt.Errorf("is a JSON %s; it must be %s", kind.Value, expected(kind))
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		return fmt.Errorf("line %d: no JSON: %w", line, err)
	}
	return err
}

// expected names the JSON that a value can be read from.
func expected(err *json.UnmarshalTypeError) string {
	switch err.Type.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list of times in seconds"
	}
	return "an object, as the course's scripts save it"
}
