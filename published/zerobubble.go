package published

import (
	"fmt"
	"time"

	"psim"
)

const zeroBubblePaper = "Qi et al. 2023, Zero Bubble Pipeline Parallelism, arXiv 2401.10241"

// zeroBubbleTable5 returns the bubble rates that the authors computed from profiled
// times, for the three schedules whose orders the paper gives.
func zeroBubbleTable5() Table {
	return Table{
		Name: "zero-bubble-2023-table-5", Title: "bubble rate of 1F1B, ZB-H1 and ZB-H2", Figure: "zero-bubble-bubbles",
		Paper: zeroBubblePaper, Place: "table 5; times from table 9",
		Note: "Rates are printed with four digits, and ours are the same four: the errors are those of rounding.",
		Rows: func() ([]Row, error) {
			return rowsPer(records("zero_bubble.csv"), func(r record) ([]Row, error) {
				return rowPer([][2]string{{"1f1b", "bubble_1F1B"}, {"zb-h1", "bubble_ZBH1"}, {"zb-h2", "bubble_ZBH2"}}, func(s [2]string) (Row, error) {
					return r.bubble(s[0], s[1], 1)
				})
			})
		},
	}
}

// zeroBubbleTable5Interleaved returns the same for interleaved 1F1B.
func zeroBubbleTable5Interleaved() Table {
	return Table{
		Name: "zero-bubble-2023-table-5-interleaved", Title: "bubble rate of interleaved 1F1B", Figure: "zero-bubble-bubbles",
		Paper: zeroBubblePaper, Place: "table 5; times from table 9",
		Note: "One layer per chunk. The paper's spans are shorter than ours by exactly p messages, one turn around the ranks, which it seems not to count.",
		Rows: func() ([]Row, error) {
			return rowPer(records("zero_bubble.csv"), func(r record) (Row, error) {
				// The first and the last stage have one layer less.
				return r.bubble("interleaved-1f1b", "bubble_1F1BI", (r.count("layers")+2)/r.count("p"))
			})
		},
	}
}

// timed simulates a schedule with a row's times, divided among the chunks of a rank.
func (r record) timed(schedule string, chunks int, host time.Duration, more string) (psim.Simulation, error) {
	each := func(column string) time.Duration { return r.milliseconds(column) / time.Duration(chunks) }
	return simulate(fmt.Sprintf("[schedule]\nname = %q\nstages = %d\nmicrobatches = %d\nvirtual_stages = %d\n"+
		"[times]\nforward = %q\nbackward_input = %q\nbackward_weight = %q\np2p = %q\nhost = %q\n%s",
		schedule, r.count("p"), r.count("m"), chunks, each("TF_ms"), each("TB_ms"), each("TW_ms"), r.milliseconds("Tcomm_ms"), host, more))
}

func (r record) bubble(schedule, column string, chunks int) (Row, error) {
	s, err := r.timed(schedule, chunks, 0, "")
	return Row{
		Label:     fmt.Sprintf("%s p=%d m=%d %s", r.text("model"), r.count("p"), r.count("m"), schedule),
		Published: r.number(column), Predicted: s.Summary.Bubble.Span,
	}, err
}

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

// A measuredSchedule is a column of throughputs in table 4.
type measuredSchedule struct {
	name, column string
	interleaved  bool
	// settles says that the program updates without waiting for all ranks, so that a step
	// takes what the busiest rank spans (section 4, post-validation).
	settles bool
	limit   int // of activations, for an order that is searched, by the number of stages
}

// zeroBubbleTable4Schedules returns the measured throughput of all schedules with the
// host time of messages that Megatron's stack stands for.
func zeroBubbleTable4Schedules() Table {
	return Table{
		Name: "zero-bubble-2023-table-4-schedules", Title: "the same of 1F1B, interleaved 1F1B, ZB-1p and ZB-2p, with one constant", Figure: "zero-bubble-throughput",
		Paper: zeroBubblePaper, Place: "table 4; times from table 9",
		Fitted: "times.host_message of stack megatron-2023, one for all, from the rows of 1F1B and interleaved 1F1B with the fewest microbatches of each model",
		Note: "Megatron-LM waits for what it sends and receives, and for the device, before it launches what the message is for (p2p_communication.py, torch.cuda.synchronize after batch_isend_irecv): once before every F and B whose input is a message. " +
			"ZB-1p is zb-h1; ZB-2p an order found under twice the activations of 1F1B. Their messages do not stop the host, and yet their rows want as much and more, in proportion to the times: " +
			"by some 4 %, which may be what kernels lose beside those that send and receive, or the slowest of the devices over the mean.",
		Rows: func() ([]Row, error) {
			var model string
			return rowsPer(records("zero_bubble.csv"), func(r record) ([]Row, error) {
				first := r.text("model") != model
				model = r.text("model")
				return rowPer([]measuredSchedule{
					{name: "1f1b", column: "thr_1F1B"}, {name: "interleaved-1f1b", column: "thr_1F1BI", interleaved: true},
					{name: "zb-h1", column: "thr_ZB1p", settles: true}, {name: "auto", column: "thr_ZB2p", settles: true, limit: 2},
				}, func(s measuredSchedule) (Row, error) {
					row, err := r.measured(s, "[train]\nstack = \"megatron-2023\"\n")
					row.Used = first && !s.settles
					return row, err
				})
			})
		},
	}
}

// measured simulates a schedule with a row's times, and with what more lines say.
func (r record) measured(s measuredSchedule, more string) (Row, error) {
	p, m, chunks := r.count("p"), r.count("m"), 1
	if s.interleaved {
		chunks = (r.count("layers") + 2) / p // one layer each
	}
	if s.limit > 0 {
		// I frees what no W needs: of 34sbh + 5as²b bytes all but 32sbh (Korthikanti et al. 2022).
		square := 5 * r.number("heads") * r.number("seq") / r.number("hidden")
		more += fmt.Sprintf("[memory]\nactivation = \"1MB\"\nfreed_by_input_gradient = \"%.3fMB\"\nlimit = \"%dMB\"\n", (2+square)/(34+square), s.limit*p)
	}
	prediction, err := r.timed(s.name, chunks, 0, more)
	step := prediction.Summary.StepTime.Seconds()
	if s.settles {
		step = prediction.Summary.LongestSpan.Seconds()
	}
	return Row{
		Label: fmt.Sprintf("%s p=%d m=%d %s", r.text("model"), p, m, s.name), Unit: "samples/s per GPU",
		Published: r.number(s.column), Predicted: float64(r.count("micro_batch")*m) / float64(p) / step,
	}, err
}

// throughput simulates 1F1B with a row's times.
func (r record) throughput(host time.Duration) (Row, error) {
	p, m := r.count("p"), r.count("m")
	s, err := r.timed("1f1b", 1, host, "")
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

// dualPipeBubbles returns the comparison of bubbles in DualPipe's README: formulas,
// here with F = I = W = 10 ms, so that B = 20 ms and a pair takes 30.
func dualPipeBubbles() Table {
	const f, b, w, pair = 10, 20, 10, 30
	type method struct {
		name, schedule string
		perRank        int // stages
		bubble         func(stages int) float64
	}
	methods := []method{
		{"1F1B", "1f1b", 1, func(p int) float64 { return float64(p-1) * (f + b) }},
		{"ZB1P", "zb-h1", 1, func(p int) float64 { return float64(p-1) * (f + b - 2*w) }},
		{"DualPipe", "dualpipe", 1, func(p int) float64 { return float64(p/2-1) * (pair + b - 3*w) }},
		{"DualPipeV", "dualpipev", 2, func(p int) float64 { return float64(p/2-1) * (pair + b - 3*w) }},
	}
	return Table{
		Name: "deepseek-2025-dualpipe", Title: "bubbles of 1F1B, ZB1P, DualPipe and DualPipeV", Figure: "deepseek-2025-dualpipe",
		Paper: "DeepSeek-AI 2025, github.com/deepseek-ai/DualPipe", Place: "README, comparison of bubbles (formulas)",
		Note: "Formulas with F = I = W = 10 ms and 4P microbatches on 4, 8 and 16 stages, against the idle time of the rank with the longest span.",
		Rows: func() ([]Row, error) {
			return rowsPer([]int{4, 8, 16}, func(stages int) ([]Row, error) {
				return rowPer(methods, func(m method) (Row, error) {
					s, err := simulate(fmt.Sprintf("[schedule]\nname = %q\nstages = %d\nmicrobatches = %d\n"+
						"[times]\nforward = \"%dms\"\nbackward_input = \"%dms\"\nbackward_weight = \"%dms\"\n",
						m.schedule, stages/m.perRank, 4*stages, f, b-w, w))
					if err != nil {
						return Row{}, err
					}
					busy := 1e3 * s.Summary.Ranks[0].Compute.Seconds() // the same on all ranks
					return Row{
						Label: fmt.Sprintf("%s PP=%d", m.name, stages), Unit: "ms",
						Published: m.bubble(stages), Predicted: busy * s.Summary.Bubble.Span / (1 - s.Summary.Bubble.Span),
					}, nil
				})
			})
		},
	}
}
