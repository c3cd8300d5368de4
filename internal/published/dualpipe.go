package published

import "fmt"

// dualPipeBubbles returns the comparison of bubbles in DualPipe's README: formulas,
// here with F = I = W = 10 ms, so that B = 20 ms and a pair takes 30.
func dualPipeBubbles() Table {
	const f, b, w, pair = 10, 20, 10, 30
	methods := []struct {
		name, schedule string
		perRank        int // stages
		bubble         func(stages int) float64
	}{
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
			var rows []Row
			for _, stages := range []int{4, 8, 16} {
				for _, m := range methods {
					s, err := simulate(fmt.Sprintf("[schedule]\nname = %q\nstages = %d\nmicrobatches = %d\n"+
						"[times]\nforward = \"%dms\"\nbackward_input = \"%dms\"\nbackward_weight = \"%dms\"\n",
						m.schedule, stages/m.perRank, 4*stages, f, b-w, w))
					if err != nil {
						return nil, err
					}
					busy := 1e3 * s.Summary.Ranks[0].Compute.Seconds() // the same on all ranks
					rows = append(rows, Row{
						Label: fmt.Sprintf("%s PP=%d", m.name, stages), Unit: "ms",
						Published: m.bubble(stages), Predicted: busy * s.Summary.Bubble.Span / (1 - s.Summary.Bubble.Span),
					})
				}
			}
			return rows, nil
		},
	}
}
