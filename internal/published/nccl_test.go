package published

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/calibrate"
	"psim/costmodel/link"
)

// The catalog's ranges are the fit to the rows that are used, and to no other.
func TestCatalogIsTheFit(t *testing.T) {
	others := func(source string) []ncclTiming { return ncclTimings(ncclMachine(source), "us") }
	for name, list := range map[string][]ncclTiming{
		"nvlink3-a100": ncclTimings(records("nccl_a100.csv"), "ns"), "nvlink2-v100": ncclTimings(records("nccl_v100.csv"), "ns"),
		"pcie3-no-p2p": others("A"), "nvlink4-h200": others("C"), "nvlink5-b200": others("D"),
	} {
		fit, err := calibrate.FitLink(usedTimings(list))
		require.NoError(t, err)
		link, err := catalogLink(name)
		require.NoError(t, err)
		require.Equal(t, inTOML(fit.AllReduce), inTOML(link.AllReduce), "all_reduce of %s is to be:\n%s", name, inTOML(fit.AllReduce))
	}
}

// inTOML writes ranges as the catalog has them.
func inTOML(ranges []link.Range) string {
	var b strings.Builder
	for _, r := range ranges {
		fmt.Fprintf(&b, "  {ranks = %d, from = %q, call = %q, bandwidth = %q},\n", r.Ranks, r.From, r.Call, r.Bandwidth)
	}
	return b.String()
}
