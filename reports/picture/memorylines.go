package picture

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/chart"
	"psim/results/tracecsv"
)

// A memoryLine is a curve that the legend names, with all ranks that have it.
type memoryLine struct {
	tracecsv.MemoryCurve
	ranks []int
	name  string
	color color.RGBA
}

// memoryLines picks the curves that have a colour, each once, and reports whether there are
// others.
func memoryLines(curves []tracecsv.MemoryCurve) (lines []memoryLine, others bool) {
	lines = distinctCurves(curves)
	if len(lines) <= maxMemoryLines {
		for i := range lines {
			lines[i].name, lines[i].color = rankNames(lines[i].ranks), chart.Color(i)
		}
		return lines, false
	}
	slices.SortStableFunc(lines, func(a, b memoryLine) int { return cmp.Compare(b.Peak(), a.Peak()) })
	n := len(lines)
	named := []memoryLine{lines[0], lines[n/2], lines[n-1]}
	for i, which := range []string{"highest", "median", "lowest"} {
		l := &named[i]
		l.name = fmt.Sprintf("%s (%s peak, %s)", rankNames(l.ranks), which, units.FormatBytes(l.Peak()))
		l.color = chart.Color(i)
	}
	return named, true
}

// distinctCurves lists every curve once, with its ranks.
func distinctCurves(curves []tracecsv.MemoryCurve) []memoryLine {
	var lines []memoryLine
	for _, c := range curves {
		same := slices.IndexFunc(lines, func(l memoryLine) bool {
			return l.Persistent == c.Persistent && slices.Equal(l.Points, c.Points)
		})
		if same < 0 {
			same, lines = len(lines), append(lines, memoryLine{MemoryCurve: c})
		}
		lines[same].ranks = append(lines[same].ranks, c.Rank)
	}
	return lines
}

// rankNames lists ranks in ascending order, such as rank 3, ranks 1, 2 or ranks 0–7. If the
// list is long, it is abbreviated and begins with the number of ranks.
func rankNames(ranks []int) string {
	const most = 4
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if j == i+1 {
			j = i // two ranks in a row are listed one by one
		}
		part := strconv.Itoa(ranks[i])
		if j > i {
			part += "–" + strconv.Itoa(ranks[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if n := len(parts); n > most {
		return fmt.Sprintf("%d ranks: %s … %s", len(ranks), strings.Join(parts[:most-1], ", "), parts[n-1])
	}
	if len(ranks) == 1 {
		return "rank " + parts[0]
	}
	return "ranks " + strings.Join(parts, ", ")
}
