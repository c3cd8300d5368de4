package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/schedules"
)

// TestListDevices checks that the verbose list has every value of the catalog,
// with its source.
func TestListDevices(t *testing.T) {
	stdout, _, code := psim(t, "psim list devices -v")
	require.Zero(t, code)
	blocks := map[string]string{} // by name, spaces and line breaks made one space
	for block := range strings.SplitSeq(stdout, "\n\n") {
		name, _, _ := strings.Cut(block, ":")
		blocks[name] = strings.Join(strings.Fields(block), " ")
	}
	contains := func(name string, source map[string]string, values ...any) {
		for key, text := range source {
			if what, ok := strings.CutPrefix(key, "efficiency_"); ok {
				key = what
			}
			require.Contains(t, blocks[name], " "+key+" ", name)
			require.Contains(t, blocks[name], strings.Join(strings.Fields(text), " "), name)
		}
		for _, v := range values {
			if text := fmt.Sprint(v); text != "" && (text[0] != '0' || strings.HasPrefix(text, "0.")) { // given
				require.Contains(t, blocks[name], " "+text, name)
			}
		}
	}
	for _, d := range configs.Catalog().Devices {
		contains(d.Name, d.Source, d.Memory, d.MemoryBandwidth, d.Peak.FP32, d.Peak.TF32, d.Peak.FP16, d.Peak.BF16,
			"memory "+fmt.Sprint(d.Efficiency.Memory), d.Efficiency.FP32, d.Efficiency.BF16, d.Launch, d.HalfRows, d.Link)
	}
	for _, l := range configs.Catalog().Links {
		contains(l.Name, l.Source, l.Bandwidth, l.Latency, l.Collective, l.Call, l.Shared, l.Algorithm)
		for _, table := range l.Tables() {
			for _, r := range table.Ranges {
				contains(l.Name, nil, fmt.Sprintf("over %d from %s: %s and %s", r.Ranks, r.From, r.Call, r.Bandwidth))
			}
		}
	}
}

// The list has the machines of the catalog, and the verbose one their sources.
func TestListMachines(t *testing.T) {
	brief, _, _ := psim(t, "psim list devices")
	verbose, _, _ := psim(t, "psim list devices -v")
	words := strings.Join(strings.Fields(verbose), " ")
	for _, m := range configs.KnownMachines() {
		require.Contains(t, brief, "\n"+m.Name+" ")
		for key, source := range m.Source {
			require.Contains(t, words, fmt.Sprintf("%s %v %s", key, m.Machine[key], strings.Join(strings.Fields(source), " ")))
		}
	}
}

// The verbose list says all that the catalog does.
func TestListSchedulesVerbose(t *testing.T) {
	stdout, stderr, code := psim(t, "psim list schedules --verbose")
	require.Zero(t, code, stderr)
	words := strings.Join(strings.Fields(stdout), " ")
	for _, s := range schedules.Catalog() {
		require.Contains(t, words, fmt.Sprintf("%s: %s %s bubble %s in flight %s ", s.Name, s.Summary, s.About, s.Bubble, s.Memory))
		require.Contains(t, words, " paper "+s.Paper+" ")
	}
	require.Contains(t, words, " ring-allgather ")
}

// Every list that the help names is printed, and links and machines are parts of the devices'.
func TestListsOfHelp(t *testing.T) {
	manual, _, code := psim(t, "psim list --help")
	require.Zero(t, code)
	_, names, _ := strings.Cut(manual, "psim list ")
	names, _, _ = strings.Cut(names, " [flags]")
	require.Contains(t, names, "|links|")
	for _, flags := range []string{"", " -v"} {
		devices, _, _ := psim(t, "psim list devices"+flags)
		for name := range strings.SplitSeq(names, "|") {
			stdout, stderr, code := psim(t, "psim list "+name+flags)
			require.Zero(t, code, stderr)
			require.Greater(t, strings.Count(stdout, "\n"), 2)
			if name == "links" || name == "machines" {
				require.Contains(t, strings.Join(strings.Fields(devices), " "), strings.Join(strings.Fields(stdout), " "))
			}
		}
	}
}
