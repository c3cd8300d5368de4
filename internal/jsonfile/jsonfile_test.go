package jsonfile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/jsonfile"
)

func ExampleUnmarshal() {
	var result struct {
		Stages int `json:"stages"`
	}
	fmt.Println(jsonfile.Unmarshal([]byte("{\n  \"stages\": \"four\"\n}"), &result))
	// Output: line 2, column 18: stages is a JSON string; it must be a whole number below 2⁶³
}

func TestRead(t *testing.T) {
	var into struct {
		List []string
		On   bool
	}
	for text, want := range map[string]string{
		" \n":                  "the file is empty: run again what wrote it",
		"{\n \"List\": [\"a\"": "line 2, column 13: the JSON ends too early; the file is damaged: run again what wrote it",
		"{\n \"List\": [x]":    "line 2, column 11: invalid character 'x' looking for beginning of value; the file is damaged: run again what wrote it",
		`{"List": 1}`:          "line 1, column 10: List is a JSON number; it must be an array",
		`{"On": {"a": 1}}`:     "line 1, column 8: On is a JSON object; it must be true or false",
	} {
		require.EqualError(t, jsonfile.Read(strings.NewReader(text), jsonfile.MostBytes, &into), want, text)
	}
	require.NoError(t, jsonfile.Read(strings.NewReader(`{"List": ["a"]}`), jsonfile.MostBytes, &into))
	require.Equal(t, []string{"a"}, into.List)
	require.ErrorContains(t, jsonfile.Read(strings.NewReader(`{"List": ["a"]}`), 8, &into), "ends too early")
}

// The words that Python writes for numbers that JSON does not have are named with their field.
func TestNonNumbers(t *testing.T) {
	var into map[string]any
	const end = ", which JSON does not have: give its value"
	for text, want := range map[string]string{
		"{\n \"step_time_s\": Infinity}":              "line 2, column 17: step_time_s is Infinity" + end,
		`{"a": "NaN", "b": {"c": 1, "d": NaN}}`:       "line 1, column 33: b.d is NaN" + end,
		`{"a": {"b": 1}, "c": [1, {"d": -Infinity}]}`: "line 1, column 33: c[1].d is -Infinity" + end,
		`[[1, 2], [true, NaN]]`:                       "line 1, column 17: [1][1] is NaN" + end,
		`NaN`:                                         "line 1, column 1: the file is NaN" + end,
		`{"a": 1, NaN: 2}`: "line 1, column 10: invalid character 'N' looking for beginning of object key string; " +
			"the file is damaged: run again what wrote it",
	} {
		require.EqualError(t, jsonfile.Unmarshal([]byte(text), &into), want, text)
	}
}
