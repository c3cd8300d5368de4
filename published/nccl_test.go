package published

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/calibrate"
	"psim/costmodel/link"
	"psim/internal/units"
)

// The catalog's ranges over a table's numbers of ranks are the fit to the rows that are used, and to no other.
func TestFittedLinks(t *testing.T) {
	for name, of := range map[string][2]string{
		"nvlink3-a100": {"vtrain-2024-nccl-a100"}, "nvlink2-v100": {"vtrain-2024-nccl-v100"},
		"pcie3-no-p2p": {"nccl-other-machines", "A"}, "nvlink4-h200": {"nccl-other-machines", "C"}, "nvlink5-b200": {"nccl-other-machines", "D"},
		"xgmi-mi300x": {"rccl-machines", "F"}, "xgmi-mi355x": {"rccl-machines", "G"},
	} {
		for _, r := range rowsOf(t, table(of[0])) {
			if of[1] != "" && r.text("src") != of[1] {
				continue
			}
			timings, err := r.usedTimings()
			require.NoError(t, err)
			fit, err := calibrate.FitTimings(timings)
			require.NoError(t, err)
			found, err := catalogLink(name)
			require.NoError(t, err)
			own := slices.DeleteFunc(slices.Clone(found.AllReduce), func(r link.SizeRange) bool {
				return !slices.ContainsFunc(timings, func(t calibrate.CollectiveTiming) bool { return t.Ranks == r.Ranks })
			})
			require.Equal(t, inTOML(fit.AllReduce), inTOML(own), "all_reduce of %s is to be:\n%s", name, inTOML(fit.AllReduce))
			break
		}
	}
}

// The catalog's ranges of nodes of which three collectives were measured are the fit to the rows that are
// used, but for all-reduces over 8 GPUs that another table has up to 16 GiB.
func TestFittedKinds(t *testing.T) {
	fitted := map[string]link.Link{}
	for _, r := range rowsOf(t, table("nccl-kinds")) {
		if _, done := fitted[r.text("device")]; done {
			continue
		}
		timings, err := r.usedTimings()
		require.NoError(t, err)
		fitted[r.text("device")], err = calibrate.FitTimings(timings)
		require.NoError(t, err)
	}
	elsewhere := map[string]string{"h200": "nvlink4-h200", "b200": "nvlink5-b200"}
	for device, name := range map[string]string{"h100": "nvlink4-h100", "h200": "nvlink4-h200", "b200": "nvlink5-b200", "gb200": "nvlink5-nvl72"} {
		catalog, err := catalogLink(name)
		require.NoError(t, err)
		for i, fit := range fitted[device].Tables() {
			of := func(ranges []link.SizeRange) string {
				return inTOML(slices.DeleteFunc(slices.Clone(ranges), func(r link.SizeRange) bool {
					return fit.Key == "all_reduce" && r.Ranks == 8 && elsewhere[device] != ""
				}))
			}
			require.NotEmpty(t, fit.Ranges)
			assert.Equal(t, of(fit.Ranges), of(catalog.Tables()[i].Ranges), "%s of %s is to be:\n%s", fit.Key, name, of(fit.Ranges))
		}
	}
}

// The latency of InfiniBand is what a step of NCCL's trees takes on ABCI, where an all-reduce
// of 8 B over 2, 4, 8 and 16 nodes takes so many microseconds: twice as many nodes are two
// steps more (aistabci/abci2.0benchmark, allreduce: 8 A100 and HDR, 4 V100 and EDR).
func TestLatencyOfInfiniBand(t *testing.T) {
	mean := 0.0
	for name, us := range map[string][4]float64{"ib-hdr": {32.62, 42.03, 51.38, 61.68}, "ib-edr": {17.93, 30.74, 40.79, 50.38}} {
		step := (3*(us[3]-us[0]) + us[2] - us[1]) / 20 // least squares over 2, 4, 6 and 8 steps
		link, err := catalogLink(name)
		require.NoError(t, err)
		require.Contains(t, link.Source["latency"], fmt.Sprintf("%.2f", step), name)
		require.Equal(t, units.Duration(5*time.Microsecond), link.Latency, name)
		mean += step / 2
	}
	require.InDelta(t, 5, mean, 0.2)
}

// inTOML writes ranges as the catalog has them.
func inTOML(ranges []link.SizeRange) string {
	var b strings.Builder
	for _, r := range ranges {
		fmt.Fprintf(&b, "  {ranks = %d, from = %q, call = %q, bandwidth = %q},\n", r.Ranks, r.From, r.Call, r.Bandwidth)
	}
	return b.String()
}
