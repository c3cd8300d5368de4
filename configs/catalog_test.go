package configs_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/configs/catalog"
	"psim/configs/machinefile"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/models"
)

var name = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9.]+)*$`)

// sourced wants an entry of source for every other key of a catalog's entry, the
// description aside, one for every efficiency, and no more.
func sourced(t *testing.T, path string) {
	t.Helper()
	var entries map[string]map[string]any
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = toml.Decode(string(data), &entries)
	require.NoError(t, err)
	for entry, keys := range entries {
		source, ok := keys["source"].(map[string]any)
		require.True(t, ok, entry)
		if shares, ok := keys["efficiency"].(map[string]any); ok { // which have a source each
			for key, share := range shares {
				keys["efficiency_"+key] = share
			}
			delete(keys, "efficiency")
		}
		for key := range keys {
			if key != "source" && key != "description" {
				require.Contains(t, source, key, entry)
			}
		}
		for key, text := range source {
			require.Contains(t, keys, key, "the source of %s names what it does not have", entry)
			require.NotEmpty(t, text, entry)
		}
	}
}

func TestDevices(t *testing.T) {
	sourced(t, "catalog/devices.toml")
	all := configs.Catalog()
	require.GreaterOrEqual(t, len(all.Devices), 26)
	seen := map[string]bool{}
	for _, d := range all.Devices {
		require.Regexp(t, name, d.Name)
		require.False(t, seen[d.Name])
		seen[d.Name] = true
		require.NotEmpty(t, d.Description, d.Name)
		require.True(t, slices.ContainsFunc(all.Links, func(l link.Link) bool { return l.Name == d.Link }), d.Name)
		require.Positive(t, d.MemoryBandwidth, d.Name)
		require.Positive(t, d.Launch, d.Name)
		require.GreaterOrEqual(t, d.HalfRows, 0.0, d.Name)
		inUnit(t, d.Name, d.Efficiency.Memory)
		rates := 0
		for precision, rate := range map[string][2]float64{
			"fp32": {float64(d.Peak.FP32), d.Efficiency.FP32}, "fp16": {float64(d.Peak.FP16), d.Efficiency.FP16},
			"bf16": {float64(d.Peak.BF16), d.Efficiency.BF16}, "fp8": {float64(d.Peak.FP8), d.Efficiency.FP8},
			"mxfp8": {float64(d.Peak.FP8), d.Efficiency.FP8}, "nvfp4": {float64(d.Peak.FP4), d.Efficiency.FP4},
		} {
			got, err := d.Achievable(precision)
			if narrow := precision == "mxfp8" || precision == "nvfp4"; narrow && !d.Microscaling {
				require.ErrorContains(t, err, d.Name+" has no scales")
				continue
			}
			if rate[0] == 0 {
				require.Zero(t, rate[1], "%s has an efficiency of nothing", d.Name)
				require.ErrorContains(t, err, d.Name)
				continue
			}
			rates++
			inUnit(t, d.Name, rate[1])
			require.NoError(t, err)
			require.InEpsilon(t, rate[0]*rate[1], got, 1e-12)
		}
		require.Positive(t, rates, d.Name)
	}
	for _, name := range []string{"a100-80gb-sxm", "h100-80gb-sxm", "v100-32gb-sxm", "cpu-core", "rtx-4090d"} {
		require.True(t, seen[name], "%s is in the contract", name)
	}
}

func inUnit(t *testing.T, name string, share float64) {
	t.Helper()
	require.Greater(t, share, 0.0, name)
	require.LessOrEqual(t, share, 1.0, name)
}

func TestLinks(t *testing.T) {
	sourced(t, "catalog/links.toml")
	seen := map[string]bool{}
	for _, l := range configs.Catalog().Links {
		require.Regexp(t, name, l.Name)
		require.False(t, seen[l.Name])
		seen[l.Name] = true
		require.NotEmpty(t, l.Description, l.Name)
		require.Positive(t, l.Bandwidth, l.Name)
		require.Positive(t, l.Latency, l.Name)
		require.Contains(t, []string{"", "device", "node"}, l.Shared, l.Name)
		var b bytes.Buffer
		require.NoError(t, machinefile.WriteLink(&b, l, link.Link{}, nil))
		read, err := configs.ParseMachine(l.Name, b.Bytes())
		require.NoError(t, err, "the catalog's values are legal in a configuration")
		require.Equal(t, l.Tables(), read.Link.Tables())
	}
	require.True(t, seen["pcie4-no-p2p"] && seen["ib-hdr"], "these are in the contract")
}

// What a link is said to derive as another link's, or as another key of its own, is equal to
// it, and says why.
func TestLinksDeriveFromLinks(t *testing.T) {
	var entries map[string]map[string]any
	data, err := os.ReadFile("catalog/links.toml")
	require.NoError(t, err)
	_, err = toml.Decode(string(data), &entries)
	require.NoError(t, err)
	derived := 0
	for name, keys := range entries {
		for key, source := range keys["source"].(map[string]any) {
			as, ok := strings.CutPrefix(catalog.Fold(source.(string)), "derived: as ")
			if !ok || strings.HasPrefix(as, "much of ") { // a share of another's, by their specifications
				continue
			}
			of, why, _ := strings.Cut(as, ", ")
			require.NotEmpty(t, why, "%s %s", name, key)
			other, known := entries[of]
			if !known {
				require.Contains(t, keys, of, "%s %s names neither a link nor a key", name, key)
				other = map[string]any{key: keys[of]}
			}
			require.Equal(t, other[key], keys[key], "%s %s", name, key)
			derived++
		}
	}
	require.Greater(t, derived, 20)
}

// Every device can be asked for by name, on its own link and any network.
func TestEveryDeviceRuns(t *testing.T) {
	for _, d := range configs.Catalog().Devices {
		precision := "fp32"
		if _, err := d.Achievable(precision); err != nil {
			precision = "bf16"
		}
		experiment, s := run(t, parse(t, networkKeys, "machine.device="+d.Name, "train.precision="+precision))
		d.Source = nil // which only the catalog has
		require.Equal(t, d, experiment.Machine.Device)
		require.Equal(t, d.Link, experiment.Machine.Link.Name)
		require.Positive(t, s.StepTime, d.Name)
	}
	for _, l := range configs.Catalog().Links {
		experiment, _ := run(t, parse(t, networkKeys, "machine.network="+l.Name, "machine.devices_per_node=1", "machine.nics_per_node=2"))
		l.Source = nil
		require.Equal(t, l, experiment.Machine.Network)
	}
}

func TestEveryPresetRuns(t *testing.T) {
	for _, p := range models.Presets() {
		c, err := configs.Parse("x.toml", []byte("[schedule]\nname = \"gpipe\"\nstages = 2\n[batch]\nglobal = 2\n[machine]\ndevice = \"h100-80gb-sxm\"\n"), "model.preset="+p.Name)
		require.NoError(t, err)
		_, s := run(t, c)
		require.Positive(t, s.StepTime, p.Name)
	}
}

// A machine gets the entries that it names, which are those of the whole catalog without their sources, and all of
// them if a name is not there.
func TestCatalogOf(t *testing.T) {
	all := configs.Catalog()
	for _, d := range all.Devices {
		got := configs.CatalogOf(costmodel.MachineOptions{Device: d.Name})
		d.Source = nil
		require.Equal(t, []costmodel.Device{d}, got.Devices)
		for _, l := range got.Links {
			require.Contains(t, []string{d.Link, d.HostLink}, l.Name)
		}
	}
	for _, l := range all.Links {
		got := configs.CatalogOf(costmodel.MachineOptions{Network: link.Options{Name: l.Name}})
		l.Source = nil
		require.Equal(t, []link.Link{l}, got.Links)
	}
	for _, o := range []costmodel.MachineOptions{{Device: "nosuch"}, {HostLink: link.Options{Name: "nosuch"}}} {
		require.Equal(t, all, configs.CatalogOf(o))
	}
}
