// Package judged is a measured step that was held against its prediction, and what would explain it.
package judged

// A Judgment is a measured step, held against the prediction of its configuration.
type Judgment struct {
	Verdict   string  `json:"verdict" oneof:"inside,slow,fast,inconsistent"`
	Measured  float64 `json:"measured_s"`
	Predicted float64 `json:"predicted_s"`
	// Interval is that of the prediction; nil without evidence, and Missing says why.
	Interval *Interval `json:"interval,omitempty"`
	Missing  string    `json:"interval_missing,omitempty"`
	// Rate is the rate of the measured step over the peak of the device's products, with what is computed
	// again; Reach is the share of it that large products reach; 0 where there is no network.
	Rate  float64 `json:"rate,omitempty"`
	Reach float64 `json:"reach,omitempty"`
	// Assumptions are settings that the run may have had, each with the step that it gives, the one that comes
	// nearest to what was measured first.
	Assumptions []Assumption `json:"assumptions,omitempty"`
	// Changes are what single changes would give, the shortest step first.
	Changes []Gain `json:"changes,omitempty"`
}

// An Interval is where a share of such runs should lie, by published runs.
type Interval struct {
	Low      float64 `json:"low_s"`
	High     float64 `json:"high_s"`
	Coverage float64 `json:"coverage"`
	From     string  `json:"from"` // the runs, in words
	Runs     int     `json:"runs"`
	Sources  int     `json:"sources"`
}

// An Assumption is what a run may have been, otherwise than its configuration says.
type Assumption struct {
	Set      []string `json:"set"`
	Means    string   `json:"means"` // in words
	StepTime float64  `json:"step_time_s"`
}

// A Gain is a change of a configuration. What it would give here is the measured step times the ratio of two
// predictions.
type Gain struct {
	Set          []string `json:"set"`
	StepTime     float64  `json:"step_time_s"`
	MeasuredStep float64  `json:"measured_step_s"`
}

// The verdicts of a Judgment.
const (
	Inside       = "inside"
	Slow         = "slow"
	Fast         = "fast"
	Inconsistent = "inconsistent"
)
