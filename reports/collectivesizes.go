package reports

import (
	"fmt"
	"io"
	"slices"

	"psim/internal/files"
	"psim/schedules/graph"
)

// CollectiveSizes is what a collective took by itself, size by size.
type CollectiveSizes struct {
	Schema     int              `json:"schema"` // version of this format: 1
	Collective string           `json:"collective"`
	Devices    int              `json:"devices"`
	Backend    string           `json:"backend"`
	Result     graph.Kind       `json:"-"`                   // what every rank ends with
	Processes  []Process        `json:"processes,omitempty"` // that ran it together; absent where it was one alone
	Sizes      []CollectiveSize `json:"sizes"`
	// TimesComparable, Disturbed and Warnings are as those of a Result.
	TimesComparable bool     `json:"times_comparable"`
	Disturbed       bool     `json:"disturbed"`
	Warnings        []string `json:"warnings"`
}

// Doubt adds what speaks against the times: that devices share cores, are not pinned for a
// reason, or that the machine was disturbed; nil where that was not measured.
func (c *CollectiveSizes) Doubt(s *Steadiness, unpinned string) {
	if !c.TimesComparable {
		c.Warnings = append(c.Warnings, SharedCores(c.Devices))
	}
	if unpinned != "" {
		c.Warnings = append(c.Warnings, unpinned)
	}
	if c.Disturbed = s != nil && s.Score() > 1; c.Disturbed {
		c.Warnings = append(c.Warnings, s.Warning())
	}
}

// A CollectiveSize is one size of it.
type CollectiveSize struct {
	Bytes        int64   `json:"bytes"` // of the whole tensor
	Time         float64 `json:"time_s"`
	BusBandwidth float64 `json:"bus_bandwidth"` // bytes per second
	Predicted    float64 `json:"predicted_s"`
	Wrong        int     `json:"wrong"` // numbers that are not what they should be
}

// BusShare is what a collective's bandwidth of its bus is over its bytes per second, as
// nccl-tests define it (doc/PERFORMANCE.md there).
func BusShare(kind graph.Kind, devices int) float64 {
	n := float64(devices)
	if kind == graph.AllReduce {
		return 2 * (n - 1) / n
	}
	return (n - 1) / n
}

// WriteJSON writes it as one object.
func (c CollectiveSizes) WriteJSON(w io.Writer) error {
	c.Schema = 1
	if c.Warnings == nil {
		c.Warnings = []string{}
	}
	return files.WriteJSON(w, c)
}

// WriteNCCL writes the columns of nccl-tests, and the prediction in microseconds behind them.
func (c CollectiveSizes) WriteNCCL(w io.Writer) error {
	p := newPage(w)
	p.print("# Collective test starting: %s\n# psim exec %s: every rank is a device of the backend %s\n#\n", c.test(), c.Collective, c.Backend)
	for r := range c.Devices {
		where := "this machine"
		for _, process := range c.Processes {
			if slices.Contains(process.Ranks, r) {
				where = fmt.Sprintf("%s, process %d,", process.Host, process.Rank)
			}
		}
		p.print("#  Rank %2d Group  0 Pid      0 on %s device %2d %s\n", r, where, r, c.Backend)
	}
	for _, warning := range c.Warnings {
		p.print("#\n# warning: %s\n", warning)
	}
	p.print("#\n#%12s %12s %8s %6s %6s %10s %7s %7s %6s %10s\n", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "predicted")
	p.print("#%12s %12s %8s %6s %6s %10s %7s %7s %6s %10s\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)")
	var sum float64
	for _, s := range c.Sizes {
		rate := float64(s.Bytes) / s.Time
		p.print("%13d %12d %8s %6s %6d %10.2f %7.2f %7.2f %6d %10.2f\n", s.Bytes, s.Bytes/4, "float", c.redop(), -1, s.Time*1e6, rate/1e9, s.BusBandwidth/1e9, s.Wrong, s.Predicted*1e6)
		sum += s.BusBandwidth
	}
	p.print("# Avg bus bandwidth    : %.6g\n", sum/1e9/float64(max(1, len(c.Sizes))))
	return p.Flush()
}

// test names nccl-tests' program for the same result.
func (c CollectiveSizes) test() string {
	return map[graph.Kind]string{
		graph.AllReduce: "all_reduce_perf", graph.ReduceScatter: "reduce_scatter_perf", graph.AllGather: "all_gather_perf", graph.AllToAll: "alltoall_perf",
	}[c.Result]
}

func (c CollectiveSizes) redop() string {
	if c.Result == graph.AllReduce || c.Result == graph.ReduceScatter {
		return "sum"
	}
	return "none"
}
