package published

import (
	"fmt"
	"time"
)

// zeroBubbleTable4 returns the measured throughput of 1F1B, predicted from the
// profiled times and one constant for each model.
func zeroBubbleTable4() Table {
	return Table{
		Name: "zero-bubble-2023-table-4", Title: "samples per GPU and second of 1F1B", Figure: "zero-bubble-throughput",
		Paper: zeroBubblePaper, Place: "table 4; times from table 9",
		Fitted: "times.host of each model, from its row with the fewest microbatches",
		Note: "With nothing fitted, predictions are 3.7 to 8.5 % too fast (zero-bubble-2023-table-4-bare), by an amount that grows with the microbatches: " +
			"1.0 to 1.5 ms for every F and every B, on all four models. Megatron-LM waits for every message on the host before it launches what the message is for, and does the next batch's bookkeeping there; " +
			"the device has nothing to do meanwhile. The constant is that time.",
		Rows: func() ([]Row, error) {
			var model string
			var host time.Duration
			return rowPer(records("zero_bubble.csv"), func(r record) (row Row, err error) {
				first := r.text("model") != model
				if first {
					model = r.text("model")
					if host, err = r.fitHost(); err != nil {
						return row, err
					}
				}
				row, err = r.throughput(host)
				row.Label = fmt.Sprintf("%s, %.2f ms of host", row.Label, host.Seconds()*1e3)
				row.Used = first
				return row, err
			})
		},
	}
}

// zeroBubbleTable4Bare returns the same without the constant.
func zeroBubbleTable4Bare() Table {
	return Table{
		Name: "zero-bubble-2023-table-4-bare", Title: "the same, with nothing fitted", Figure: "zero-bubble-throughput",
		Paper: zeroBubblePaper, Place: "table 4; times from table 9",
		Rows: func() ([]Row, error) {
			return rowPer(records("zero_bubble.csv"), func(r record) (Row, error) { return r.throughput(0) })
		},
	}
}

// throughput simulates 1F1B with a row's times.
func (r record) throughput(host time.Duration) (Row, error) {
	p, m := r.count("p"), r.count("m")
	s, err := simulate(fmt.Sprintf("[schedule]\nname = \"1f1b\"\nstages = %d\nmicrobatches = %d\n"+
		"[times]\nforward = %q\nbackward_input = %q\nbackward_weight = %q\np2p = %q\nhost = %q\n",
		p, m, r.milliseconds("TF_ms"), r.milliseconds("TB_ms"), r.milliseconds("TW_ms"), r.milliseconds("Tcomm_ms"), host))
	samples := float64(r.count("micro_batch") * m)
	return Row{
		Label: fmt.Sprintf("%s p=%d m=%d", r.text("model"), p, m), Unit: "samples/s per GPU",
		Published: r.number("thr_1F1B"), Predicted: samples / float64(p) / s.Summary.StepTime.Seconds(),
	}, err
}

// fitHost returns the host time with which the prediction of a row is right, to a
// microsecond.
func (r record) fitHost() (time.Duration, error) {
	low, high := time.Duration(0), time.Second
	for high-low > time.Microsecond {
		middle := (low + high) / 2
		row, err := r.throughput(middle)
		if err != nil {
			return 0, err
		}
		if row.Predicted > row.Published {
			low = middle
		} else {
			high = middle
		}
	}
	return high.Round(time.Microsecond), nil
}
