package configs_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// Every machine of the catalog has a source for every key, and is priced as its device and link
// are if an experiment names them itself, kernels and all.
func TestKnownMachines(t *testing.T) {
	require.GreaterOrEqual(t, len(configs.KnownMachines()), 2)
	for _, m := range configs.KnownMachines() {
		require.Regexp(t, name, m.Name)
		require.NotEmpty(t, m.Description)
		require.ElementsMatch(t, slices.Collect(maps.Keys(m.Machine)), slices.Collect(maps.Keys(m.Source)), m.Name)
		for key, text := range m.Source {
			require.NotEmpty(t, text, "%s %s", m.Name, key)
		}
		named, err := configs.Load("gpt2-4090d-data-parallel", "machine.file="+m.Name)
		require.NoError(t, err)
		got, s := run(t, named)
		require.Equal(t, m.Machine["device"], got.Machine.Device.Name)
		require.Equal(t, m.Machine["link"], got.Machine.Link.Name)
		require.EqualValues(t, m.Machine["devices_per_node"], got.Machine.DevicesPerNode)
		spelled, err := configs.Load("gpt2-4090d-data-parallel", "machine.device="+got.Machine.Device.Name, "machine.link="+got.Machine.Link.Name)
		require.NoError(t, err)
		_, other := run(t, spelled)
		require.Equal(t, other.StepTime, s.StepTime, m.Name)
		require.NotEqual(t, named.Fingerprint(), spelled.Fingerprint())
		more, err := configs.Load("gpt2-4090d-data-parallel", "machine.file="+m.Name, "parallel.data=8")
		require.NoError(t, err)
		_, err = more.Build()
		require.ErrorContains(t, err, "network", "a job gets one node")
	}
}

// A file comes before a machine of the same name, and a name that is neither is refused.
func TestKnownMachineOrFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("modal-a10g-x2", []byte("[machine]\ndevice = \"t4\"\n"), 0o644))
	c, err := configs.Load("gpt2-4090d-data-parallel", "machine.file=modal-a10g-x2")
	require.NoError(t, err)
	got, _ := run(t, c)
	require.Equal(t, "t4", got.Machine.Device.Name)
	for file, want := range map[string]string{
		"modal-a10g-x4":               "no such file, and no machine of that name in the catalog; did you mean modal-a10g-x2?",
		filepath.Join("x", "my.toml"): "cannot be read: no such file or directory",
	} {
		c, err := configs.Load("gpt2-4090d-data-parallel", "machine.file="+file)
		if err == nil {
			_, err = c.Build()
		}
		require.ErrorContains(t, err, want)
	}
}
