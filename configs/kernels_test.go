package configs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/models"
	"psim/internal/setting"
)

// Megatron's kernels are counted for 16 bits; in fp32, that is a warning.
func TestKernelsInFP32(t *testing.T) {
	for precision, want := range map[string]int{"fp32": 1, "bf16": 0} {
		experiment, err := parse(t, networkKeys, "model.kernels=megatron", "machine.device=a100-80gb-sxm", "machine.devices_per_node=8", "train.precision="+precision).Build()
		require.NoError(t, err)
		require.Len(t, experiment.Warnings, want)
	}
}

// Kernels stand for what a host takes to launch one, where no stack names the program, on
// devices that are no cores of a CPU, and under what is given. Without kernels a host takes
// nothing, as before.
func TestHostOfKernels(t *testing.T) {
	host := func(sets ...string) costmodel.HostTimes {
		c, err := configs.Parse("x", []byte(blocks), sets...)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		return experiment.Machine.Host
	}
	for kernels, want := range map[string]costmodel.HostTimes{
		"eager": {Operation: 13500}, "compiled": {Operation: 6800}, "te": {Operation: 33900}, "megatron": {Operation: 52950}, "fused": {},
	} {
		require.Equal(t, want, host("model.kernels="+kernels), kernels)
		require.Equal(t, want, host("model.kernels="+kernels, "machine.device=tpu-v4"), kernels)
		require.Zero(t, host("model.kernels="+kernels, "machine.device=cpu-core", "train.precision=fp32"), kernels)
		require.Zero(t, host("model.kernels="+kernels, "machine.host.operation=0us"), kernels)
		given := costmodel.HostTimes{Operation: want.Operation, Task: 2000}
		require.Equal(t, given, host("model.kernels="+kernels, "machine.host.task=2us"), kernels)
	}
	require.Zero(t, host())
	require.Equal(t, host("train.stack=nanotron"), host("train.stack=nanotron", "model.kernels=megatron"), "the stack's")
	require.Zero(t, host("train.stack=megatron-2021").Operation)

	c, err := configs.Parse("x", []byte(blocks), "model.kernels=eager")
	require.NoError(t, err)
	require.False(t, c.Defined("machine.host.operation"), "nobody has given it")
	require.Equal(t, "13.5us", c.Object()["machine"].(map[string]any)["host"].(map[string]any)["operation"])
	none, err := c.With("machine.host.operation=0us")
	require.NoError(t, err)
	require.Equal(t, "0s", none.Object()["machine"].(map[string]any)["host"].(map[string]any)["operation"], "so that it stays none")
	c, err = c.With("model.kernels=fused")
	require.NoError(t, err)
	require.Zero(t, c.Machine.Host)
	require.NotContains(t, c.Object()["machine"], "host")
}

// The catalog says where the time of all kernels is from; it is that of the stack that it was fitted with.
func TestKernelHosts(t *testing.T) {
	for _, k := range models.KernelSets() {
		require.NotEmpty(t, k.Source, k.Name)
	}
	of := func(sets ...string) costmodel.HostTimes {
		c, err := configs.Parse("x", []byte(blocks), sets...)
		require.NoError(t, err)
		return c.Machine.Host
	}
	for kernels, stack := range map[string]string{"te": "megatron-te", "megatron": "megatron-deepspeed", "eager": "nanotron", "compiled": "torchtitan"} {
		require.Equal(t, of("train.stack="+stack).Operation, of("model.kernels="+kernels).Operation, kernels)
	}
}

// What psim help says of a host's time by kernels is what the catalog has.
func TestHostOfKernelsInHelp(t *testing.T) {
	var text string
	for s := range setting.Each(costmodel.HostTimes{}) {
		if s.Key == "operation" {
			text = s.Text
		}
	}
	for _, k := range models.KernelSets() {
		for _, set := range k.Sets {
			_, value, _ := strings.Cut(set, " = ")
			require.Contains(t, text, k.Name+" "+strings.Trim(value, `"`))
		}
	}
}
