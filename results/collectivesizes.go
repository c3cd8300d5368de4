package results

import (
	"io"

	"psim/internal/files"
	"psim/internal/units"
	"psim/schedules/graph"
)

// CollectiveSizes holds the times of a collective by itself, by size.
type CollectiveSizes struct {
	Schema     int              `json:"schema"` // version of this format: 1
	Collective string           `json:"collective"`
	Devices    int              `json:"devices"`
	Backend    string           `json:"backend"`
	Result     graph.Kind       `json:"-"`                   // the collective whose result every rank ends with
	Processes  []Process        `json:"processes,omitempty"` // the processes that ran it; absent if there was one
	Sizes      []CollectiveSize `json:"sizes"`
	// TimesComparable, Disturbed and Warnings have the meaning that they have in a Result.
	TimesComparable bool     `json:"times_comparable"`
	Disturbed       bool     `json:"disturbed"`
	Warnings        []string `json:"warnings"`
}

// Doubt adds warnings about the times: that devices share cores, why they are not pinned, or
// that the machine was disturbed. The steadiness is nil if it was not measured.
func (c *CollectiveSizes) Doubt(s *Steadiness, unpinned string) {
	if !c.TimesComparable {
		c.Warnings = append(c.Warnings, units.Plural(c.Devices, "device")+SharedCores)
	}
	if unpinned != "" {
		c.Warnings = append(c.Warnings, unpinned)
	}
	if c.Disturbed = s != nil && s.Score() > 1; c.Disturbed {
		c.Warnings = append(c.Warnings, s.Warning())
	}
}

// A CollectiveSize holds the time of a collective of one size.
type CollectiveSize struct {
	Bytes        int64   `json:"bytes"` // of the whole tensor
	Time         float64 `json:"time_s"`
	BusBandwidth float64 `json:"bus_bandwidth"` // bytes per second
	Predicted    float64 `json:"predicted_s"`
	Wrong        int     `json:"wrong"` // how many numbers of the result are wrong
}

// BusShare returns the ratio of a collective's bus bandwidth to its bytes per second, as
// nccl-tests define it (doc/PERFORMANCE.md there).
func BusShare(kind graph.Kind, devices int) float64 {
	n := float64(devices)
	if kind == graph.AllReduce {
		return 2 * (n - 1) / n
	}
	return (n - 1) / n
}

// WriteJSON writes the times as an indented JSON object.
func (c CollectiveSizes) WriteJSON(w io.Writer) error {
	c.Schema = 1
	if c.Warnings == nil {
		c.Warnings = []string{}
	}
	return files.WriteJSON(w, c)
}
