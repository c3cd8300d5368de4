package reports

import (
	"fmt"
	"io"
	"slices"

	"psim/reports/table"
	"psim/results"
	"psim/schedules/graph"
)

// WriteNCCL writes the times of a collective in the form of nccl-tests, with the prediction in
// microseconds as a further column. The widths of the columns are those of nccl-tests.
func WriteNCCL(w io.Writer, c results.CollectiveSizes) error {
	out := table.NewPage(w)
	out.Print("# Collective test starting: %s\n", ncclTest(c))
	out.Print("# psim exec %s: every rank is a device of the backend %s\n#\n", c.Collective, c.Backend)
	for r := range c.Devices {
		out.Print("#  Rank %2d Group  0 Pid      0 on %s device %2d %s\n", r, machineOf(c, r), r, c.Backend)
	}
	for _, warning := range c.Warnings {
		out.Print("#\n# warning: %s\n", warning)
	}
	const head = "#%12s %12s %8s %6s %6s %10s %7s %7s %6s %10s\n"
	out.Print("#\n")
	out.Print(head, "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "predicted")
	out.Print(head, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)")
	var sum float64
	for _, s := range c.Sizes {
		rate := float64(s.Bytes) / s.Time
		out.Print("%13d %12d %8s %6s %6d %10.2f %7.2f %7.2f %6d %10.2f\n", s.Bytes, s.Bytes/4, "float", redop(c), -1,
			s.Time*1e6, rate/1e9, s.BusBandwidth/1e9, s.Wrong, s.Predicted*1e6)
		sum += s.BusBandwidth
	}
	out.Print("# Avg bus bandwidth    : %.6g\n", sum/1e9/float64(max(1, len(c.Sizes))))
	return out.Flush()
}

// machineOf says where a rank ran.
func machineOf(c results.CollectiveSizes, rank int) string {
	for _, process := range c.Processes {
		if slices.Contains(process.Ranks, rank) {
			return fmt.Sprintf("%s, process %d,", process.Host, process.Rank)
		}
	}
	return "this machine"
}

// ncclTest names the program of nccl-tests with the same result.
func ncclTest(c results.CollectiveSizes) string {
	switch c.Result {
	case graph.AllReduce:
		return "all_reduce_perf"
	case graph.ReduceScatter:
		return "reduce_scatter_perf"
	case graph.AllGather:
		return "all_gather_perf"
	case graph.AllToAll:
		return "alltoall_perf"
	}
	return ""
}

// redop names the operation by which the collective reduces.
func redop(c results.CollectiveSizes) string {
	if c.Result == graph.AllReduce || c.Result == graph.ReduceScatter {
		return "sum"
	}
	return "none"
}
