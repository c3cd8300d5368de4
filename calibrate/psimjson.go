package calibrate

import (
	"fmt"

	"psim/schedules/collective"
)

// A psimReport holds the parts that are read of the JSON of psim exec COLLECTIVE.
type psimReport struct {
	Collective string `json:"collective"` // "" if the JSON is something else
	Ranks      int    `json:"devices"`
	Processes  []struct {
		Host string `json:"host"`
	} `json:"processes"`
	Sizes []struct {
		Bytes        float64 `json:"bytes"`
		Time         float64 `json:"time_s"`
		BusBandwidth float64 `json:"bus_bandwidth"`
		Wrong        float64 `json:"wrong"`
	} `json:"sizes"`
	Warnings []string `json:"warnings"`
}

// run converts a report to the units of nccl-tests.
func (r psimReport) run(label string) (ncclRun, error) {
	run := ncclRun{ranks: r.Ranks, warnings: r.Warnings}
	row, err := collective.Find(r.Collective)
	if err != nil {
		return run, err
	}
	for i := range ncclTests {
		if ncclTests[i].kind == row.Result {
			run.test = &ncclTests[i]
		}
	}
	if run.test == nil {
		return run, fmt.Errorf("this is the output of %s, which prices no collective of a link; "+
			"use that of an all-reduce, all-gather or reduce-scatter", r.Collective)
	}
	for _, p := range r.Processes {
		run.addHost(p.Host)
	}
	for i, s := range r.Sizes {
		us := s.Time * 1e6
		run.rows = append(run.rows, ncclRow{
			at: fmt.Sprintf("%s: sizes[%d]", label, i), size: s.Bytes, us: us,
			algbw: s.Bytes / us / 1e3, busbw: s.BusBandwidth / 1e9, wrong: s.Wrong,
		})
	}
	return run, nil
}
