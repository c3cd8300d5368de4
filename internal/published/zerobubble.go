package published

import (
	"fmt"
	"time"
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

// bubble simulates a schedule with a row's times, divided among the chunks of a
// rank.
func (r record) bubble(schedule, column string, chunks int) (Row, error) {
	each := func(column string) time.Duration { return r.milliseconds(column) / time.Duration(chunks) }
	s, err := simulate(fmt.Sprintf("[schedule]\nname = %q\nstages = %d\nmicrobatches = %d\nvirtual_stages = %d\n"+
		"[times]\nforward = %q\nbackward_input = %q\nbackward_weight = %q\np2p = %q\n",
		schedule, r.count("p"), r.count("m"), chunks, each("TF_ms"), each("TB_ms"), each("TW_ms"), r.milliseconds("Tcomm_ms")))
	return Row{
		Label:     fmt.Sprintf("%s p=%d m=%d %s", r.text("model"), r.count("p"), r.count("m"), schedule),
		Published: r.number(column), Predicted: s.Summary.Bubble.Span,
	}, err
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
