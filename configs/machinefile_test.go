package configs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/configs/machinefile"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/golden"
	"psim/internal/units"
)

// measuredMachine draws what a calibration could find.
func measuredMachine(t *rapid.T) costmodel.Machine {
	duration := rapid.Custom(func(t *rapid.T) units.Duration { return units.Duration(rapid.Int64Range(0, 1e15).Draw(t, "ns")) })
	rate := rapid.Float64Range(1e-3, 1e18)
	d := costmodel.Device{
		Name: "inline", Efficiency: costmodel.Efficiency{FP32: 1, FP16: 1, BF16: 1, Memory: 1},
		MemoryBandwidth: units.Rate(rate.Draw(t, "memory")), Launch: duration.Draw(t, "launch"),
		HalfRows: rapid.Float64Range(0, 1e6).Draw(t, "half rows"),
	}
	flops := units.FLOPS(rate.Draw(t, "flops"))
	d.Peak = costmodel.Peak{FP32: flops, TF32: flops, FP16: flops, BF16: flops}
	names := rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), 0, 3, rapid.ID[string]).Draw(t, "layers")
	for _, name := range names {
		var last costmodel.Measured
		for range rapid.IntRange(1, 3).Draw(t, "sizes") {
			last.Layer = strings.ToValidUTF8(name, "?")
			last.Samples += rapid.Int64Range(1, 1000).Draw(t, "samples")
			for _, of := range []*units.Duration{&last.Forward, &last.Backward, &last.InputGradient, &last.WeightGradient} {
				*of += duration.Draw(t, "time")
			}
			d.Measured = append(d.Measured, last)
		}
	}
	d.MeasuredModel = rapid.SampledFrom([]string{"", "gpt-6x192", `a "name"`}).Draw(t, "model")
	if rapid.Bool().Draw(t, "optimizer") {
		d.Updates = []costmodel.MeasuredUpdate{{Name: "adamw", PerTensor: duration.Draw(t, "per tensor"), Rate: units.Rate(rate.Draw(t, "rate"))}}
	}
	l := link.Link{Name: "inline", Bandwidth: units.Rate(rate.Draw(t, "bandwidth")), Latency: duration.Draw(t, "latency"), Call: duration.Draw(t, "call")}
	l.Algorithm = rapid.SampledFrom(append(link.Algorithms(), "")).Draw(t, "algorithm")
	l.AllReduce, l.AllGather, l.ReduceScatter = drawRanges(t), drawRanges(t), drawRanges(t)
	m := costmodel.Machine{Device: d, Link: l}
	if m.Cores.Number = rapid.IntRange(0, 3).Draw(t, "cores"); m.Cores.Number > 0 {
		for _, slower := range []*float64{&m.Cores.Forward, &m.Cores.Backward, &m.Cores.Update, &m.Cores.Average} {
			*slower = rapid.Float64Range(1, 4).Draw(t, "slower")
		}
	}
	return m
}

// drawRanges draws the table of one kind of collective, by ranks and sizes.
func drawRanges(t *rapid.T) []link.SizeRange {
	var list []link.SizeRange
	for ranks := 2; ranks < 2+rapid.IntRange(0, 3).Draw(t, "numbers of ranks"); ranks++ {
		from := units.Bytes(0)
		for range rapid.IntRange(1, 3).Draw(t, "ranges") {
			list = append(list, link.SizeRange{
				Ranks: ranks, From: from, Call: units.Duration(rapid.Int64Range(0, 1e15).Draw(t, "ns")),
				Bandwidth: units.Rate(rapid.Float64Range(1e-3, 1e18).Draw(t, "bandwidth")),
			})
			from += units.Bytes(rapid.Int64Range(1, 1e15).Draw(t, "bytes"))
		}
	}
	return list
}

// A link alone is read back to the same numbers too, beside a device.
func TestLinkRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := measuredMachine(t)
		var b bytes.Buffer
		require.NoError(t, machinefile.WriteLink(&b, m.Link, link.Link{}, []string{"measured"}))
		read, err := configs.ParseMachine("m.toml", b.Bytes())
		require.NoError(t, err, b.String())
		require.Equal(t, m.Link, read.Link)
	})
}

// What is written is read back to the same numbers.
func TestMachineRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := measuredMachine(t)
		comment := rapid.SliceOf(rapid.String()).Draw(t, "comment")
		var b bytes.Buffer
		require.NoError(t, machinefile.Write(&b, m, comment))
		read, err := configs.ParseMachine("m.toml", b.Bytes())
		require.NoError(t, err, b.String())
		require.Equal(t, m, read)
	})
}

// The form of the file is seen when it changes.
func TestWriteMachine(t *testing.T) {
	m := costmodel.Machine{
		Device: costmodel.Device{
			Peak: costmodel.Peak{FP32: 35e9}, Efficiency: costmodel.Efficiency{FP32: 1, Memory: 1}, MemoryBandwidth: 1.2e9, Launch: 400,
			Measured: []costmodel.Measured{{Layer: "chain 8x16 to 8x16, layer norm, parameters 16 16", Samples: 2, Forward: 1500, Backward: 3000, InputGradient: 2500}},
			Updates:  []costmodel.MeasuredUpdate{{Name: "adamw", PerTensor: 12000, Rate: 2e8}},

			MeasuredModel: "chain-8x16",
		},
		Link: link.Link{Bandwidth: 5e9, Latency: 3000, Algorithm: "auto", AllReduce: []link.SizeRange{{Ranks: 2, From: 1 << 20, Call: 9000, Bandwidth: 4e9}},
			ReduceScatter: []link.SizeRange{{Ranks: 2, Call: 8000, Bandwidth: 3e9}}},
	}
	var b bytes.Buffer
	require.NoError(t, machinefile.Write(&b, m, []string{"On a test, 2 cores.", "", "bell\a"}))
	golden.Equal(t, "machine-file.golden", b.String())
	require.ErrorContains(t, machinefile.Write(&b, costmodel.Machine{}, nil), "no rate")
}

// Measured layers of a file are used by an experiment that names it; a file
// named by --set replaces the experiment's own machine.
func TestMeasuredMachineFile(t *testing.T) {
	layer := "embedding 32 to 32x64, 2 operations, parameters 101x64 32x64"
	text := "[machine.compute]\nflops = \"1TFLOP/s\"\n[machine.link]\nbandwidth = \"1GB/s\"\n" +
		"[[machine.measured]]\nlayer = \"" + layer + "\"\nsamples = 1\nforward = \"7ms\"\nbackward = \"9ms\"\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "mine.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c := parse(t, networkKeys, "machine.file="+path)
	experiment, err := c.Build()
	require.NoError(t, err)
	m := experiment.Machine
	require.Equal(t, "inline", m.Device.Name, "not the configuration's t4")
	require.Len(t, m.Device.Measured, 1)
	require.EqualValues(t, 1e9, m.Link.Bandwidth)
	compute, err := costmodel.NewCompute(m.Device, c.Train.Options)
	require.NoError(t, err)
	embedding := experiment.Staged.Network.Layers[0]
	require.Equal(t, layer, embedding.Signature())
	require.EqualValues(t, 21e6, compute.Backward(embedding, 3)-compute.Backward(embedding, 1)+3e6)
	require.Equal(t, []string{"the machine's measured layers are those of another network: of the 7 layers of gpt-4x64, 6 were not measured, the first of them h.0, and are priced by rates alone; psim calibrate measures them"}, experiment.Warnings)
	require.Contains(t, built(t, networkKeys, "machine.file="+path, "machine.measured_model=gpt-9x9").Warnings[0], "layers are those of gpt-9x9: of")
	require.Empty(t, built(t, networkKeys, "machine.devices_per_node=8").Warnings, "a device of the catalog has no measured layers")
	require.Equal(t, []string{"the machine's layers were measured in fp32, so that their times are not used for bf16"}, built(t, networkKeys, "machine.file="+path, "train.precision=bf16").Warnings)

	t.Chdir(dir) // where psim runs, not beside the configuration
	require.NoError(t, os.Mkdir("elsewhere", 0o700))
	require.NoError(t, os.WriteFile("elsewhere/x.toml", []byte(networkKeys), 0o600))
	c, err = configs.Load("elsewhere/x.toml", "machine.file=mine.toml", "machine.link.latency=1ms")
	require.NoError(t, err)
	experiment, err = c.Build()
	require.NoError(t, err)
	require.EqualValues(t, 1e6, experiment.Machine.Link.Latency)
	require.EqualValues(t, 1e9, experiment.Machine.Link.Bandwidth)
}

// built is the plan of a configuration.
func built(t *testing.T, text string, sets ...string) *configs.Experiment {
	t.Helper()
	experiment, err := parse(t, text, sets...).Build()
	require.NoError(t, err)
	return experiment
}
