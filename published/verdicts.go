package published

import (
	"fmt"
	"strings"

	"psim/results"
)

// verdicts counts the verdicts on the memory of training runs. All of these runs did fit.
func (t StudyResult) verdicts() (counts map[string]int, all int) {
	counts = map[string]int{}
	for _, row := range t.Replayed {
		if row.Verdict != "" {
			counts[row.Verdict]++
			all++
		}
	}
	return counts, all
}

// writeVerdicts writes a line for every table with verdicts. form begins with the table's name.
func (r Report) writeVerdicts(b *strings.Builder, head, form string) {
	for _, t := range r.Tables {
		counts, all := t.verdicts()
		if all == 0 {
			continue
		}
		b.WriteString(head)
		head = ""
		fits, tight, not := counts[results.Fits], counts[results.Close], counts[results.DoesNotFit]
		fmt.Fprintf(b, form, t.Name, all, fits, tight, not, all-not)
	}
}

// The forms of verdicts in text and in Markdown.
const (
	verdictText = "%s: of %d runs, all of which ran, %d fit, %d are close and %d do not fit: right %d times\n"
	verdictHead = "\nMemory of the training runs, all of which ran, by the verdict of `psim run`:\n\n" +
		"| table | rows | fits | close | does not fit | right |\n|---|--:|--:|--:|--:|--:|\n"
	verdictMarkdown = "| %s | %d | %d | %d | %d | %d |\n"
)
