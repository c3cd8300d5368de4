package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// A value needs no quotes; with them, or as any TOML value, it means the same.
func TestSetForms(t *testing.T) {
	c := parse(t, small,
		"schedule.name=1f1b", "schedule.stages=3", `times.forward="1s"`, "times.backward = 2s",
		`times.p2p='5 ms'`, "times.optimizer=1ms", "memory.activation=1GB", " schedule.microbatches=6 ")
	require.Equal(t, "1f1b", c.Schedule.Name)
	require.Equal(t, 3, c.Schedule.Stages)
	require.Equal(t, 6, c.Schedule.Microbatches)
	require.Equal(t, time.Second, c.Times.Forward.At(2, 5))
	require.Equal(t, 2*time.Second, c.Times.Backward.At(0, 0))
	require.EqualValues(t, 5*time.Millisecond, c.Times.PointToPoint)
	require.EqualValues(t, 1e9, c.Memory.Activation)

	c = parse(t, small, `times.forward=["1s", "2s"]`)
	require.Equal(t, 2*time.Second, c.Times.Forward.At(1, 0))
	c = parse(t, networkKeys,
		"schedule.partition=equal", "parallel.bucket=tensor", "parallel.overlap=false",
		"machine.compute.half_rows=3", "model.tied=false")
	require.Equal(t, "equal", c.Schedule.Partition.Rule)
	require.Zero(t, c.Parallel.Bucket)
	require.False(t, c.Parallel.Overlap)
	require.Equal(t, 3.0, *c.Machine.Compute.HalfRows)
	require.False(t, *c.Model.Tied)
	c = parse(t, networkKeys, "schedule.partition=[1, 6]", "schedule.placement=[1,0]")
	require.Equal(t, []int{1, 6}, c.Schedule.Partition.Layers)
	require.Equal(t, []int32{1, 0}, c.Schedule.Placement)
}

func TestLaterSetsWin(t *testing.T) {
	c := parse(t, small, "schedule.stages=3", "schedule.stages=5", `times.forward=["1s", "1s", "1s"]`, "times.forward=7ms")
	require.Equal(t, 5, c.Schedule.Stages)
	require.Equal(t, 7*time.Millisecond, c.Times.Forward.At(4, 0))
	c, err := c.With("schedule.stages=2")
	require.NoError(t, err)
	require.Equal(t, 2, c.Schedule.Stages)
}

// A value out of range does no harm where a later one replaces it, in a list, a table
// or a machine file, too. Wrong types do.
func TestSetReplacesOutOfRange(t *testing.T) {
	bad := strings.Replace(small, "stages = 2", "stages = 0", 1)
	require.Equal(t, 3, parse(t, bad, "schedule.stages=3").Schedule.Stages)
	for sets, want := range map[string]string{
		"schedule.microbatches=3":            "x.toml:4:10: schedule.stages = 0: must be at least 1",
		"schedule.stages=-1":                 "schedule.stages=-1: schedule.stages = -1: must be at least 1",
		"schedule.stages=0 times.forward=1s": "schedule.stages=0: schedule.stages = 0: must be at least 1",
		"schedule.stages=x":                  "schedule.stages=x: schedule.stages: must be an integer, not a string",
	} {
		_, err := configs.Parse("x.toml", []byte(bad), strings.Fields(sets)...)
		require.EqualError(t, err, want)
	}

	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	write("m.toml", "[machine]\ndevice = \"t4\"\n[machine.link]\nbandwidth = \"0B/s\"\nlatency = \"5us\"\n[[machine.optimizer]]\nname = \"sgd\"\nrate = \"0B/s\"\n")
	path := write("x.toml", strings.Replace(networkKeys, "device = \"t4\"", "file = \"m.toml\"", 1))
	const rate = `machine.optimizer=[{name="sgd", rate="1GB/s"}]`
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{rate, "machine.link.bandwidth=9GB/s"}, ""},
		{[]string{rate, "machine.link=pcie4"}, ""},
		{[]string{rate, "machine.link.latency=1us"}, `m.toml:4:14: machine.link.bandwidth = "0B/s": must be more than 0`},
		{[]string{"machine.link=pcie4"}, `m.toml:8:9: machine.optimizer[0].rate = "0B/s": must be more than 0`},
	} {
		loaded, err := configs.Load(path, c.sets...)
		require.NoError(t, err)
		if _, err = loaded.Build(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

func TestSetErrors(t *testing.T) {
	const form = "must be KEY=VALUE with a dotted key, such as schedule.microbatches=16"
	for set, want := range map[string]string{
		"schedule.stages":                      "schedule.stages: " + form,
		"stages=2":                             "stages=2: " + form,
		"=2":                                   "=2: " + form,
		"":                                     ": " + form,
		"schedule.stages=1\nx.y=2":             "schedule.stages=1\nx.y=2: " + form,
		"schedule.name=\x1b[31mX":              "schedule.name=\x1b[31mX: has a control character; type the value anew",
		"schedule.stages=":                     "schedule.stages=: schedule.stages: has no value",
		"schedule.stages=99999999999999999999": "schedule.stages=99999999999999999999: schedule.stages: 99999999999999999999 is out of range for int64",
		"memory.activation=99999999999999999999B": `memory.activation=99999999999999999999B: memory.activation: "99999999999999999999B" is too large; the largest size is about 9.22EB`,
		"schedule.stages=two":                     "schedule.stages=two: schedule.stages: must be an integer, not a string",
		"schedule.stages=0":                       "schedule.stages=0: schedule.stages = 0: must be at least 1",
		"model.layer=2":                           `model.layer=2: unknown key "model.layer"; did you mean layers? There is a layer in [machine.host]`,
		"schedule.kind=gpipe":                     `schedule.kind=gpipe: unknown key "schedule.kind"; use one of name, stages, microbatches, virtual_stages, group, file, partition, first_blocks, last_blocks, placement, synchronous, whole_last, detail; there is a kind in [train.adapter]`,
		"schedule.stage=2":                        `schedule.stage=2: unknown key "schedule.stage"; did you mean stages?`,
		"shedule.stages=2":                        `shedule.stages=2: unknown section "shedule"; did you mean schedule?`,
		"times.forward=1":                         `times.forward=1: times.forward: "1" has no unit; write for example "1ms"`,
		"schedule.name.x=2":                       "schedule.name.x=2: schedule.name: must be a string, not a table",
		"schedule.name=[1]":                       "schedule.name=[1]: schedule.name: must be a string, not a list",
		"times.p2p=[1]":                           "times.p2p=[1]: times.p2p: must be a string with a unit, not a list",
		"schedule.stages=true":                    "schedule.stages=true: schedule.stages: must be an integer, not true or false",
		"schedule.stages=2.0":                     "schedule.stages=2.0: schedule.stages: must be an integer, not a decimal number",
		"schedule.name=2026-08-01":                "schedule.name=2026-08-01: schedule.name: must be a string, not a date",
		"schedule.name=gpip":                      `schedule.name=gpip: schedule.name: unknown schedule "gpip"; did you mean gpipe?`,
		"model.preset=gpt2":                       "model.preset=gpt2: model: there is [times] and [model]; exactly one of them may say what the tasks cost",
		"schedule.placement=[0,2]":                "schedule.placement=[0,2]: schedule.placement = [0 2]: rank 2 is outside 0 to 1",
	} {
		require.EqualError(t, failure(configs.Parse("x.toml", []byte(small), set)), want)
	}
}

// An error that is found late names the source that gave the key last: the
// flag, or the line of the file.
func TestLateErrorsNameTheirSource(t *testing.T) {
	err := failure(configs.Parse("x.toml", []byte(networkKeys), "schedule.stages=20"))
	require.ErrorContains(t, err, "schedule.stages=20: schedule.stages = 20: gpt-4x64 has 7 layers")
	err = failure(configs.Parse("x.toml", []byte(networkKeys), "batch.micro=3"))
	require.ErrorContains(t, err, "batch.micro=3: batch.micro = 3: 16 samples per replica")
	for _, key := range []string{"machine.link", "machine.network"} {
		err = failure(configs.Parse("x.toml", []byte(networkKeys), key+"=nope", key+".latency=7us", key+".shared=node"))
		require.ErrorContains(t, err, key+"=nope: "+key+` = "nope": not in the catalog`)
	}
	err = failure(configs.Parse("x.toml", []byte(networkKeys), "parallel.data=3"))
	require.ErrorContains(t, err, "x.toml:16:10: batch.global = 16: cannot be shared equally by parallel.data = 3 replicas")
	err = failure(configs.Parse("x.toml", []byte(networkKeys), "train.precision=bf16"))
	require.EqualError(t, err, `train.precision=bf16: train.precision = "bf16": the device t4 has no rate for it; it has fp32, fp16`)
	err = failure(configs.Parse("x.toml", []byte(networkKeys), "train.precision=bf16", "schedule.partition=equal"))
	require.ErrorContains(t, err, "train.precision")
	err = failure(configs.Parse("x.toml", []byte(networkKeys), "machine.devices_per_node=1"))
	require.ErrorContains(t, err, "machine.devices_per_node=1: machine.network: 2 ranks take 2 nodes")
}

func TestWith(t *testing.T) {
	base := parse(t, small)
	next, err := base.With("schedule.microbatches=8")
	require.NoError(t, err)
	require.Equal(t, 8, next.Schedule.Microbatches)
	require.Equal(t, 4, base.Schedule.Microbatches)
	require.Equal(t, base.Name(), next.Name())
	require.True(t, next.Defined("schedule.stages"))
	require.False(t, next.Defined("schedule.placement"))
	_, err = base.With("schedule.microbatches=0")
	require.EqualError(t, err, "schedule.microbatches=0: schedule.microbatches = 0: must be at least 1")
	_, err = base.With("schedule.x=0")
	require.ErrorContains(t, err, "unknown key")
}

// Variations of one configuration may be made and built side by side, and
// building changes nothing.
func TestWithIsConcurrent(t *testing.T) {
	base := parse(t, networkKeys)
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() {
			var c *configs.Config
			if c, errs[i] = base.With("schedule.partition=equal"); errs[i] == nil {
				_, errs[i] = c.Build()
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	again := parse(t, networkKeys)
	_, err := again.Build()
	require.NoError(t, err)
	require.Equal(t, base.Schedule, again.Schedule)
}

// A flag nests no deeper than a file.
func TestSetTooDeep(t *testing.T) {
	for _, set := range []string{"x.y=" + strings.Repeat("[{a=", 20_000), "x" + strings.Repeat(".a", 200) + "=1"} {
		err := failure(configs.Parse("x.toml", []byte(small), set))
		require.ErrorContains(t, err, ": brackets, braces or dotted keys nest more than 100 levels deep; no setting nests so deeply")
	}
}
