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
