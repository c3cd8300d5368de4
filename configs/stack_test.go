package configs_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/configs/catalog"
	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules"
)

const blocks = `
[schedule]
name = "ddp"
[model]
family = "llama"
layers = 2
hidden = 128
heads = 2
ffn_hidden = 256
vocab = 512
sequence_length = 512
[batch]
global = 8
[train]
precision = "bf16"
[machine]
device = "a100-80gb-sxm"
`

// The catalog has the stacks that train.stack may name, with a source for each list of
// settings, and every setting can be given by itself.
func TestStacks(t *testing.T) {
	var names []string
	for _, s := range configs.Stacks() {
		names = append(names, s.Name)
		require.NotEmpty(t, s.Description, s.Name)
		require.NotEmpty(t, s.Source["sets"], s.Name)
		require.NotEmpty(t, s.Source["offers"], s.Name)
		require.Equal(t, s.Tensor, len(s.Sequence) > 0, s.Name)
		for _, name := range s.Schedules {
			_, err := schedules.Find(name)
			require.NoError(t, err, s.Name)
		}
		for _, r := range s.Recompute {
			_, err := configs.Parse("x", []byte(blocks), "train.recompute="+r)
			require.NoError(t, err, s.Name)
		}
		for _, z := range s.Zero {
			_, err := configs.Parse("x", []byte(blocks), fmt.Sprintf("parallel.zero=%d", z))
			require.NoError(t, err, s.Name)
		}
		sets := append([]string(nil), s.Sets...)
		for chip, more := range s.Devices {
			require.NotEmpty(t, s.Source[chip], s.Name)
			sets = append(sets, more...)
		}
		for _, set := range sets {
			of := blocks
			if strings.HasPrefix(set, "times.") {
				of = "[schedule]\nname = \"1f1b\"\n[times]\nforward = \"1ms\"\nbackward = \"2ms\"\n"
			}
			_, err := configs.Parse("x", []byte(of), set)
			require.NoError(t, err, s.Name)
		}
		for _, device := range []string{"a100-80gb-sxm", "h100-80gb-sxm", "t4"} {
			c, err := configs.Parse("x", []byte(blocks), "train.stack="+s.Name, "train.precision=fp16", "machine.device="+device)
			require.NoError(t, err, s.Name)
			_, err = c.Build()
			require.NoError(t, err, s.Name)
		}
	}
	require.Equal(t, names, catalog.Names("stacks"), "train.stack names them")
}

// Every setting of a stack has a source: one that names it before its colon, or that of
// another stack or device, "as" which it is, and which sets it alike.
func TestStackSources(t *testing.T) {
	for _, s := range configs.Stacks() {
		lists := map[string][]string{"sets": s.Sets, "mixtures": s.Mixtures}
		maps.Copy(lists, s.Devices)
		for list, sets := range lists {
			for _, set := range sets {
				assert.True(t, settingSourced(s, list, set), "%s, %s: %s has no source in configs/catalog/stacks.toml", s.Name, list, set)
			}
		}
	}
	s := configs.Stacks()[0]
	require.False(t, settingSourced(s, "sets", "memory.allocator = 0.06"), "no stack sets it so")
	require.False(t, settingSourced(s, "sets", "train.clip = true"))
}

// settingSourced reports whether a setting in a list of a stack has a source.
func settingSourced(s configs.Stack, list, set string) bool {
	key, _, _ := strings.Cut(set, " = ")
	key = key[strings.LastIndex(key, ".")+1:]
	for _, clause := range strings.Split(s.Source[list], "; ") {
		head, _, of := strings.Cut(clause, ": ")
		words := strings.FieldsFunc(head, func(r rune) bool { return r == ',' || r == ' ' })
		if of && slices.Contains(words, key) {
			return true
		}
		as, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(clause, "assumed: "), "derived: "), "as ")
		as, _, _ = strings.Cut(as, ",")
		if ok && slices.Contains(s.Devices[as], set) && settingSourced(s, as, set) {
			return true
		}
		for _, other := range configs.Stacks() {
			own := other.Sets
			if list != "sets" {
				own = other.Devices[list]
			}
			if ok && other.Name == as && slices.Contains(own, set) && settingSourced(other, list, set) {
				return true
			}
		}
	}
	return false
}

// A stack stands for settings, whatever it lies over: given ones win, in the file and
// after it, and With keeps to that.
func TestStackUnderSettings(t *testing.T) {
	c, err := configs.Parse("x", []byte(blocks), "train.stack=pytorch-fsdp", "model.kernels=te")
	require.NoError(t, err)
	require.Equal(t, "te", c.Model.Kernels)
	require.True(t, c.Machine.Host.Waits)
	require.InDelta(t, 0.443, c.Machine.Compute.Attention, 1e-9)
	require.False(t, c.Defined("machine.host.waits"), "nobody has given it")
	c, err = c.With("machine.device=h100-80gb-sxm")
	require.NoError(t, err)
	require.InDelta(t, 0.2739, c.Machine.Compute.Attention, 1e-9)
	c, err = c.With("train.stack=none")
	require.NoError(t, err)
	require.False(t, c.Machine.Host.Waits)
	c, err = configs.Load("fsdp", "train.stack=pytorch-fsdp") // of an mlp
	require.NoError(t, err)
	_, err = c.Build()
	require.NoError(t, err)
}

// Beside [times] a stack sets the host time of messages, and nothing else of [train] has
// a meaning.
func TestStackOfTimes(t *testing.T) {
	const timed = "[schedule]\nname = \"1f1b\"\nstages = 2\n[times]\nforward = \"1ms\"\nbackward = \"2ms\"\n"
	c, err := configs.Parse("x", []byte(timed), "train.stack=megatron-2023")
	require.NoError(t, err)
	require.EqualValues(t, 1e6, c.Times.HostMessage)
	require.Zero(t, c.Machine)
	require.Equal(t, map[string]any{"stack": "megatron-2023"}, c.Object()["train"])
	c, err = c.With("times.host_message=2ms")
	require.NoError(t, err)
	require.EqualValues(t, 2e6, c.Times.HostMessage)
	_, err = c.With("train.clip=true")
	require.ErrorContains(t, err, "has no meaning with [times]")
	c, err = configs.Parse("x", []byte(blocks), "train.stack=megatron-2023")
	require.NoError(t, err)
	require.EqualValues(t, 1e6, c.Machine.Host.Message)
	require.Zero(t, c.Times.HostMessage)
}

// Attention is fused by default where there are kernels for it.
func TestAttentionDefault(t *testing.T) {
	flash := func(sets ...string) bool {
		c, err := configs.Parse("x", []byte(blocks), sets...)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		for _, l := range experiment.Network.Layers {
			for _, o := range l.Ops {
				if o.Class == network.Attention {
					return true
				}
			}
		}
		return false
	}
	require.True(t, flash())
	require.True(t, flash("train.precision=fp16", "machine.device=v100-16gb-sxm"))
	require.True(t, flash("machine.device=tpu-v4"))
	require.True(t, flash("train.precision=fp32", "model.attention=flash"))
	require.False(t, flash("train.precision=fp32"))
	require.False(t, flash("machine.device=cpu-core"))
	require.False(t, flash("model.kernels=megatron"))
	require.False(t, flash("train.stack=megatron-deepspeed"))
	require.False(t, flash("model.attention=unfused"))
	require.True(t, flash("train.stack=nanotron"))
}

// What a process holds beside its tensors is the stack's, for every group of the plan, and
// none on cores of a CPU, where nothing executed has any.
func TestStackMemory(t *testing.T) {
	process := func(sets ...string) stages.ProcessMemory {
		c, err := configs.Parse("x", []byte(blocks), append(sets, "parallel.data=2")...)
		require.NoError(t, err)
		experiment, err := c.Build()
		require.NoError(t, err)
		return experiment.Staged.Process
	}
	require.Equal(t, stages.ProcessMemory{}, process())
	require.Equal(t, stages.ProcessMemory{Context: 1573 << 20, Buffers: 688 << 20, Allocator: 0.05, FP32Shards: true}, process("train.stack=torchtitan"))
	require.Equal(t, stages.ProcessMemory{Buffers: 688 << 20, Allocator: 0.05}, process("train.stack=megatron-te", "memory.context=0B"))
	require.EqualValues(t, 3*688<<20, process("train.stack=megatron-te", "parallel.tensor=2").Buffers)
	require.Equal(t, stages.ProcessMemory{}, process("train.stack=torchtitan", "machine.device=cpu-core"))

	c, err := configs.Parse("x", []byte(blocks), "train.stack=megatron-te", "memory.context=0B")
	require.NoError(t, err)
	require.Equal(t, "0B", c.Object()["memory"].(map[string]any)["context"])
	next, _, err := c.Executable(1)
	require.NoError(t, err)
	require.Equal(t, costmodel.MemoryOptions{}, next.Memory)
	require.Zero(t, next.Machine.MemoryMargin)
}

// What a stack sets of mixtures holds where tokens choose experts and none is dropped, under
// what is given.
func TestStackMixtures(t *testing.T) {
	host := func(preset string, sets ...string) costmodel.HostTimes {
		text := "[schedule]\nname = \"ddp\"\n[model]\npreset = \"" + preset + "\"\nsequence_length = 512\n[batch]\nglobal = 8\n[train]\nstack = \"megatron-te\"\nprecision = \"bf16\"\n[machine]\ndevice = \"b200-180gb-sxm\"\n"
		c, err := configs.Parse("x", []byte(text), sets...)
		require.NoError(t, err)
		return c.Machine.Host
	}
	require.Equal(t, costmodel.HostTimes{Operation: 33900}, host("llama3-8b"))
	require.Equal(t, host("llama3-8b"), host("qwen3-30b-a3b", "model.capacity=1"))
	in := host("qwen3-30b-a3b")
	require.True(t, in.Waits)
	require.Positive(t, in.Operation)
	require.Equal(t, costmodel.HostTimes{Operation: 7000, Graphs: "fixed"}, host("qwen3-30b-a3b", "machine.host.operation=7us", "machine.host.graphs=fixed", "machine.host.waits=false"))
}

// What a stack sets of a machine lies under a machine file as under the configuration: a file
// with a link alone leaves it as it is, and what a file says wins.
func TestStackUnderMachineFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	link := write("link.toml", "[machine.link]\nbandwidth = \"300GB/s\"\nlatency = \"3us\"\n")
	host := write("host.toml", "[machine]\nmemory_margin = 0.2\n[machine.host]\nlayer = \"7us\"\n")
	text := "[schedule]\nname = \"ddp\"\nstages = 1\nmicrobatches = 1\n[model]\npreset = \"gpt2\"\n[batch]\nmicro = 1\n[train]\nprecision = \"bf16\"\nstack = \"pytorch-fsdp\"\n"
	machine := func(sets ...string) costmodel.Machine {
		c, err := configs.Parse("x.toml", []byte(text), sets...)
		require.NoError(t, err)
		m, err := c.ReadMachine()
		require.NoError(t, err)
		return m
	}
	plain := machine("machine.device=a100-80gb-sxm")
	linked := machine("machine.file="+link, "machine.device=a100-80gb-sxm")
	require.NotZero(t, plain.Host.Layer)
	require.Equal(t, plain.Host, linked.Host)
	require.Equal(t, plain.Device.Margin, linked.Device.Margin)
	require.Equal(t, plain.Device.Attention, linked.Device.Attention)
	require.Equal(t, plain.Spread, linked.Spread)
	own := machine("machine.file="+host, "machine.device=a100-80gb-sxm")
	require.Equal(t, 0.2, own.Device.Margin)
	require.Equal(t, units.Duration(7*time.Microsecond), own.Host.Layer)
	require.Equal(t, units.Duration(8*time.Microsecond), machine("machine.file="+host, "machine.device=a100-80gb-sxm", "machine.host.layer=8us").Host.Layer)
}

// A setting that a stack brings and that cannot be is told at the stack.
func TestStackIsToBlame(t *testing.T) {
	c, err := configs.Parse("x.toml", []byte("[schedule]\nname = \"ddp\"\nstages = 1\n[model]\npreset = \"gpt2\"\n[batch]\nmicro = 1\n[train]\nprecision = \"bf16\"\nstack = \"megatron-2023\"\n[machine]\ndevice = \"a100-80gb-sxm\"\n"), "parallel.context=2")
	if err == nil {
		_, err = c.Build()
	}
	require.ErrorContains(t, err, `x.toml:10:10: model.attention = "unfused": parallel.context = 2 takes`)
	require.ErrorContains(t, err, "(stack megatron-2023 sets it)")
}

// On another board of a chip a stack's shares of the peak are in proportion to the boards'.
func TestStackOnBoards(t *testing.T) {
	share := func(device, stack string) float64 {
		c, err := configs.Parse("x", []byte(blocks), "machine.device="+device, "train.stack="+stack)
		require.NoError(t, err)
		return c.Machine.Compute.Efficiency
	}
	own := func(device string) float64 {
		i := slices.IndexFunc(configs.Catalog().Devices, func(d costmodel.Device) bool { return d.Name == device })
		return configs.Catalog().Devices[i].Efficiency.BF16
	}
	for stack, boards := range map[string][2]string{"megatron-te": {"h100-80gb-sxm", "h100-80gb-pcie"}, "torchtitan": {"a100-80gb-sxm", "a100-40gb-pcie"}} {
		require.InEpsilon(t, own(boards[1])/own(boards[0]), share(boards[1], stack)/share(boards[0], stack), 1e-3, stack)
	}
}
