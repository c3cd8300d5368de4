package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// whyText says in a line which classes of work take longer in the other plan, and which less.
func whyText(w rankings.PlanWhy, plans []rankings.RankedPlan) string {
	const most = 5     // classes
	const least = 0.03 // of the largest difference, for a class to be named
	classes := results.SortedClasses(w.Longer)
	slices.SortStableFunc(classes, func(a, b string) int {
		return cmp.Compare(math.Abs(w.Longer[b]), math.Abs(w.Longer[a]))
	})
	var parts []string
	for _, class := range classes[:min(most, len(classes))] {
		d := w.Longer[class]
		if math.Abs(d) < least*math.Abs(w.Longer[classes[0]]) {
			break
		}
		sign := "+"
		if d < 0 {
			sign = "−"
		}
		parts = append(parts, sign+units.FormatSeconds(math.Abs(d))+" "+className(class))
	}
	name := "the configuration's own plan"
	if w.Plan == "runner-up" {
		name = "plan 2" + differences(plans)
	}
	if parts == nil {
		return fmt.Sprintf("%s takes as long, of the same parts; ties go by their settings", name)
	}
	longer := units.FormatSeconds(w.StepTime - plans[0].StepTime)
	return fmt.Sprintf("%s takes %s longer: %s", name, longer, strings.Join(parts, ", "))
}

// differences lists the settings in which the second plan differs from the first, if it has no row of
// its own.
func differences(plans []rankings.RankedPlan) string {
	if len(plans) < 2 || plans[0].Plan.Layout() != plans[1].Plan.Layout() {
		return ""
	}
	others := slices.DeleteFunc(slices.Clone(plans[1].Set), func(set string) bool {
		return slices.Contains(plans[0].Set, set)
	})
	if len(others) == 0 {
		return ""
	}
	return " (" + strings.Join(others, ", ") + ")"
}

// printSettings prints the settings of the first plan, or of all, as a shell takes them.
func printSettings(out table.Page, plans []rankings.RankedPlan, all bool) {
	if !all {
		out.Print("\nsettings of plan 1, for psim run and the like after this CONFIG, --device and --set " +
			"(--settings all has every plan's)\n")
		out.Print("%s", flagLines(plans[0].Set))
		return
	}
	for i, plan := range plans {
		out.Print("\nsettings of plan %d\n%s", i+1, flagLines(plan.Set))
	}
}

// flagLines writes settings as lines of flags that go on at a backslash.
func flagLines(sets []string) string {
	const widest = 90
	var lines []string
	line := " "
	for _, set := range sets {
		flag := " --set " + ShellWord(set)
		if utf8.RuneCountInString(line+flag+` \`) > widest && line != " " {
			lines, line = append(lines, line), " "
		}
		line += flag
	}
	return strings.Join(append(lines, line), " \\\n") + "\n"
}

// ShellWord quotes a word if a shell would not take it as it is.
func ShellWord(word string) string {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && !(r >= '0' && r <= '9') && !strings.ContainsRune("-_=./,:+%", r)
	}
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
