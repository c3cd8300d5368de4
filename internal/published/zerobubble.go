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
			return rowsPer("zero_bubble.csv", func(r record) (rows []Row, err error) {
				for _, s := range [][2]string{{"1f1b", "bubble_1F1B"}, {"zb-h1", "bubble_ZBH1"}, {"zb-h2", "bubble_ZBH2"}} {
					row, err := r.bubble(s[0], s[1], 1)
					if err != nil {
						return nil, err
					}
					rows = append(rows, row)
				}
				return rows, nil
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
			return rowPer("zero_bubble.csv", func(_ int, r record) (Row, error) {
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
