package published

import (
	"fmt"
	"strings"

	"psim/results"
)

// verdicts counts the verdicts on the memory of training runs that did fit.
func (t StudyResult) verdicts() (counts map[string]int, all int) { return countVerdicts(t.Replayed) }

// countVerdicts counts the verdicts on the memory of rows.
func countVerdicts(rows []DataPoint) (counts map[string]int, all int) {
	counts = map[string]int{}
	for _, row := range rows {
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
		fmt.Fprintf(b, form, t.Name, all, "which ran", fits, tight, not, all-not)
		if counts, all = countVerdicts(t.Failed); all > 0 {
			fits, tight, not = counts[results.Fits], counts[results.Close], counts[results.DoesNotFit]
			fmt.Fprintf(b, form, t.Name, all, "out of memory", fits, tight, not, not)
		}
	}
}

// The forms of verdicts in text and in Markdown.
const (
	verdictText = "%s: of %d runs, %s, %d fit, %d are close and %d do not fit: right %d times\n"
	verdictHead = "\nMemory of the training runs by the verdict of `psim run`:\n\n" +
		"| table | rows | which | fits | close | does not fit | right |\n|---|--:|---|--:|--:|--:|--:|\n"
	verdictMarkdown = "| %s | %d | %s | %d | %d | %d | %d |\n"
)
