package configs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel/link"
)

// withFile writes network with another [machine] next to testdata's files.
func withFile(t *testing.T, machine string, sets ...string) *configs.Experiment {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"machine.toml", "link.toml", "config.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	path := filepath.Join(dir, "x.toml")
	text := strings.Replace(networkKeys, `device = "t4"`, machine, 1)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := configs.Load(path, sets...)
	require.NoError(t, err)
	experiment, _ := run(t, c)
	return experiment
}

func catalogLink(t *testing.T, name string) link.Link {
	t.Helper()
	for _, l := range configs.Catalog().Links {
		if l.Name == name {
			l.Source = nil // which only the catalog has
			return l
		}
	}
	require.Fail(t, "no link "+name)
	return link.Link{}
}

// A machine file is read beside the configuration, whose own keys go over it.
func TestMachineFile(t *testing.T) {
	m := withFile(t, `file = "machine.toml"`).Machine
	require.Equal(t, "t4", m.Device.Name)
	require.Equal(t, 2, m.DevicesPerNode)
	require.Equal(t, catalogLink(t, "pcie3"), m.Link)
	require.Equal(t, catalogLink(t, "ethernet-10g"), m.Network)

	m = withFile(t, "file = \"machine.toml\"\nlink = \"pcie4\"", "machine.devices_per_node=1", "machine.compute.memory=8GB").Machine
	require.Equal(t, 1, m.DevicesPerNode)
	require.Equal(t, catalogLink(t, "pcie4"), m.Link)
	require.EqualValues(t, 8e9, m.Device.Memory)

	m = withFile(t, `device = "t4"`, "machine.file=machine.toml", "machine.device=l4").Machine
	require.Equal(t, "l4", m.Device.Name)
	require.Equal(t, 2, m.DevicesPerNode)
}

// A link's file has no device, and by --set it takes the place of the nodes.
func TestLinkFile(t *testing.T) {
	const nodes = "device = \"t4\"\ndevices_per_node = 2\nnetwork = \"ethernet-10g\""
	experiment := withFile(t, nodes, "machine.file=link.toml", "machine.device=t4")
	require.Zero(t, experiment.Machine.DevicesPerNode)
	require.Len(t, experiment.Warnings, 1)
	require.Contains(t, experiment.Warnings[0], `machine.file = "link.toml" replaces all of [machine], and so the network between nodes of 2 devices`)

	for _, experiment := range []*configs.Experiment{
		withFile(t, "file = \"link.toml\"\n"+nodes),
		withFile(t, nodes, "machine.file=link.toml", "machine.device=t4", "machine.devices_per_node=2", "machine.network=ethernet-10g"),
	} {
		require.Equal(t, 2, experiment.Machine.DevicesPerNode)
		require.EqualValues(t, 7e9, experiment.Machine.Link.Bandwidth)
		require.Empty(t, experiment.Warnings)
	}
}

// A key of a link that comes after a name or a table changes that key alone.
func TestLinkKeys(t *testing.T) {
	inline := "device = \"t4\"\n[machine.link]\nbandwidth = \"10GB/s\"\nlatency = \"7us\"\nshared = \"node\""
	l := withFile(t, inline).Machine.Link
	require.Equal(t, link.Link{Name: "inline", Bandwidth: 1e10, Latency: 7000, Shared: "node"}, l)
	l = withFile(t, inline, "machine.link.bandwidth=20GB/s", "machine.link.collective_call=1us").Machine.Link
	require.Equal(t, link.Link{Name: "inline", Bandwidth: 2e10, Latency: 7000, Shared: "node", Call: 1000}, l)
	require.Equal(t, catalogLink(t, "pcie4"), withFile(t, inline, "machine.link=pcie4").Machine.Link)

	want := catalogLink(t, "pcie3")
	want.Latency = 0
	require.Equal(t, want, withFile(t, `file = "machine.toml"`, "machine.link.latency=0s").Machine.Link)
}

// [machine.compute] changes a device or describes one; zero is a value where
// it means something.
func TestComputeKeys(t *testing.T) {
	d := withFile(t, `device = "t4"`, "machine.compute.launch=0s", "machine.compute.half_rows=0").Machine.Device
	require.Zero(t, d.Launch)
	require.Zero(t, d.HalfRows)
	rate, err := d.Achievable("fp32")
	require.NoError(t, err)
	d = withFile(t, `device = "t4"`, "machine.compute.flops=10TFLOP/s").Machine.Device
	own, err := d.Achievable("fp32")
	require.NoError(t, err)
	require.Equal(t, 1e13, own) // what is given is what is reached
	require.NotEqual(t, rate, own)
	require.NotZero(t, d.Launch)

	experiment := withFile(t, "link = \"pcie4\"\n[machine.compute]\nflops = \"1TFLOP/s\"")
	require.Zero(t, experiment.Machine.Device.MemoryBandwidth)
	require.Nil(t, experiment.Capacity)
	for _, value := range []string{"-1", "nan", "inf", "1e300"} {
		err := failure(configs.Parse("x.toml", []byte(networkKeys), "machine.compute.half_rows="+value))
		require.ErrorContains(t, err, "machine.compute.half_rows = ")
	}
}

// model.file is a Hugging Face config.json, beside the configuration or by its
// whole path.
func TestModelFile(t *testing.T) {
	whole, err := filepath.Abs("testdata/config.json")
	require.NoError(t, err)
	for _, file := range []string{"testdata/config.json", whole} {
		text := "[schedule]\nname = \"gpipe\"\nstages = 2\n[batch]\nglobal = 4\n[machine]\ndevice = \"t4\"\n"
		experiment, _ := run(t, parse(t, text, "model.file="+file))
		// 3 blocks of 12h² + 13h, 101 words, 32 positions, the last norm.
		const h = 64
		require.EqualValues(t, 3*(12*h*h+13*h)+101*h+32*h+2*h, experiment.Staged.Network.Parameters())
		require.EqualValues(t, 4*32, experiment.Tokens)
		experiment, _ = run(t, parse(t, text, "model.file="+file, "model.sequence_length=16"))
		require.EqualValues(t, 4*16, experiment.Tokens)
	}
	text := strings.NewReplacer("family = \"gpt\"\nlayers = 4\nhidden = 64\nheads = 4\nvocab = 101\nsequence_length = 32", `file = "config.json"`).Replace(networkKeys)
	require.NotEqual(t, networkKeys, text)
	dir := t.TempDir()
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.toml"), []byte(text), 0o600))
	c, err := configs.Load(filepath.Join(dir, "x.toml"))
	require.NoError(t, err)
	experiment, _ := run(t, c)
	require.Len(t, experiment.Staged.Network.Layers, 6)
	for size, refused := range map[int]bool{7 << 20: false, 9 << 20: true} { // labels fill more than a configuration may
		padded := append(slices.Clone(data), strings.Repeat("\n", size)...)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), padded, 0o600))
		c, err := configs.Load(filepath.Join(dir, "x.toml"))
		if err == nil {
			_, err = c.Build()
		}
		if refused {
			require.ErrorContains(t, err, "has more than 8388608 bytes; that is too large")
		} else {
			require.NoError(t, err)
		}
	}
}
