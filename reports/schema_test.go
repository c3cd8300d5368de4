package reports_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/results"
	"psim/results/schema"
)

// Results of psim before schema 1 load, with what they said.
func TestSchema0(t *testing.T) {
	for name, devices := range map[string]int{"schema0-predicted.json": 0, "schema0-measured.json": 2} {
		data, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		r, err := results.ReadResult(bytes.NewReader(data))
		require.NoError(t, err)
		require.Zero(t, r.Schema)
		require.Equal(t, devices, r.Devices)
		require.True(t, r.Fits())
		var table bytes.Buffer
		require.NoError(t, reports.WriteResult(&table, r))
		require.NotContains(t, table.String(), "MFU")
	}
	_, err := results.ReadResult(bytes.NewReader([]byte(`{"schema": 2, "kind": "predicted", "ranks": [{}]}`)))
	require.EqualError(t, err, "schema is 2; this psim reads results up to 1, so a newer one has written it")
}

// The schema is that of docs, and every field in it is described.
func TestSchemaDescribes(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, schema.WriteJSON(&b))
	golden.Equal(t, "../../docs/result.schema.json", b.Bytes())
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &schema))
	for object, o := range schema.Defs {
		for name, p := range o.Properties {
			require.Greater(t, len(p.Description), 5, "%s.%s has no comment in the source that says what it means", object, name)
		}
	}
}
