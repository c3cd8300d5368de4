package reports

import (
	"fmt"
	"io"
	"slices"

	"psim/reports/table"
	"psim/results"
	"psim/schedules/graph"
)

// WriteNCCL writes the columns of nccl-tests, and the prediction in microseconds behind them.
func WriteNCCL(w io.Writer, c results.CollectiveSizes) error {
	p := table.NewPage(w)
	p.Print("# Collective test starting: %s\n# psim exec %s: every rank is a device of the backend %s\n#\n", ncclTest(c), c.Collective, c.Backend)
	for r := range c.Devices {
		where := "this machine"
		for _, process := range c.Processes {
			if slices.Contains(process.Ranks, r) {
				where = fmt.Sprintf("%s, process %d,", process.Host, process.Rank)
			}
		}
		p.Print("#  Rank %2d Group  0 Pid      0 on %s device %2d %s\n", r, where, r, c.Backend)
	}
	for _, warning := range c.Warnings {
		p.Print("#\n# warning: %s\n", warning)
	}
	p.Print("#\n#%12s %12s %8s %6s %6s %10s %7s %7s %6s %10s\n", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "predicted")
	p.Print("#%12s %12s %8s %6s %6s %10s %7s %7s %6s %10s\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)")
	var sum float64
	for _, s := range c.Sizes {
		rate := float64(s.Bytes) / s.Time
		p.Print("%13d %12d %8s %6s %6d %10.2f %7.2f %7.2f %6d %10.2f\n", s.Bytes, s.Bytes/4, "float", redop(c), -1, s.Time*1e6, rate/1e9, s.BusBandwidth/1e9, s.Wrong, s.Predicted*1e6)
		sum += s.BusBandwidth
	}
	p.Print("# Avg bus bandwidth    : %.6g\n", sum/1e9/float64(max(1, len(c.Sizes))))
	return p.Flush()
}

// test names nccl-tests' program for the same result.
func ncclTest(c results.CollectiveSizes) string {
	return map[graph.Kind]string{
		graph.AllReduce: "all_reduce_perf", graph.ReduceScatter: "reduce_scatter_perf", graph.AllGather: "all_gather_perf", graph.AllToAll: "alltoall_perf",
	}[c.Result]
}

func redop(c results.CollectiveSizes) string {
	if c.Result == graph.AllReduce || c.Result == graph.ReduceScatter {
		return "sum"
	}
	return "none"
}
