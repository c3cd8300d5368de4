package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// schemaCheck compares JSON with docs/result.schema.json, as far as it uses JSON Schema, and refuses
// properties that it does not describe.
type schemaCheck struct {
	*testing.T
	definitions map[string]any
}

// has reports whether a value is of one of the types of a schema.
func (c schemaCheck) has(types any, value any) bool {
	list, many := types.([]any)
	if !many {
		list = []any{types}
	}
	n, number := value.(json.Number)
	is := map[any]bool{"number": number, "integer": number && !strings.ContainsAny(n.String(), ".e"), "null": value == nil}
	_, is["string"] = value.(string)
	_, is["boolean"] = value.(bool)
	_, is["array"] = value.([]any)
	_, is["object"] = value.(map[string]any)
	return slices.ContainsFunc(list, func(one any) bool { return is[one] })
}

func (c schemaCheck) check(schema map[string]any, value any, path string) {
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	require.True(c, c.has(schema["type"], value), "%s = %.50v: must be %v", path, value, schema["type"])
	if choices, ok := schema["enum"].([]any); ok {
		require.Contains(c, choices, value, path)
	}
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			c.check(schema["items"].(map[string]any), x, path+"[]")
		}
	case map[string]any:
		properties, described := schema["properties"].(map[string]any)
		if !described {
			return // any keys are allowed
		}
		for name, x := range v {
			property, known := properties[name].(map[string]any)
			require.True(c, known, "%s.%s is not described", path, name)
			c.check(property, x, path+"."+name)
		}
		for _, name := range schema["required"].([]any) {
			require.Contains(c, v, name, path)
		}
	}
}

func decodeJSON(t *testing.T, text string) map[string]any {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&object), text)
	return object
}

// The JSON that psim prints follows docs/result.schema.json.
func TestOutputFollowsSchema(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../docs/result.schema.json")
	require.NoError(t, err)
	schema := decodeJSON(t, string(data))
	c := schemaCheck{t, schema["$defs"].(map[string]any)}
	u := newUser(t)
	for _, line := range []string{
		"psim run gpipe --json", "psim run gpipe --json --boundaries --explain", "psim run megatron-175b --json", "psim run fsdp --json", "psim run ring-allreduce --json",
		"psim run course-timeline --json", "psim run launch-bound --json", "psim run gpipe --json --set machine.memory_margin=0.9",
		"psim run auto --json --set schedule.stages=2 --set schedule.microbatches=4",
		"psim run gpipe --json --set schedule.name=pipedream --set model.tied=false",
		"psim exec exec --json --gpus 2 --steps 2 --warmup 1 --repeats 1 --check weights,loss --course-rates --set model.layers=2 --set model.hidden=32",
		"psim exec exec --json --gpus 2 --epochs 2 --repeats 1 --course-rates --set schedule.name=ddp --set data.samples=70 --set model.layers=2 --set model.hidden=32",
		"psim exec --json --gpus 2 --out -" + tiny + untimed,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, _ := u.psim(t, line)
			require.NotEmpty(t, stdout, stderr)
			schemaCheck{t, c.definitions}.check(schema, decodeJSON(t, stdout), "")
		})
	}
	stdout, _, code := u.psim(t, "psim search gpipe --json --set model.layers=4 --set schedule.stages=2")
	require.Zero(t, code)
	c.check(c.definitions["Ranking"].(map[string]any), decodeJSON(t, stdout), "")
}
