package results

import (
	"io"

	"psim/internal/files"
	"psim/internal/units"
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
		c.Warnings = append(c.Warnings, units.Plural(c.Devices, "device")+SharedCores)
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
