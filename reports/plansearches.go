package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results/rankings"
)

// WritePlanSearches prints for people the best plan for each of several numbers of devices, how sure
// that is, and with settings those of every plan.
func WritePlanSearches(w io.Writer, s rankings.PlanSearches, settings bool) error {
	out := table.NewPage(w)
	var best rankings.PlanRanking // of the best plans of all searches
	var rows []layout
	for _, one := range s.Searches {
		if len(one.Plans) > 0 {
			best.Plans, best.Varied = append(best.Plans, one.Plans[0]), one.Varied
			rows = append(rows, layout{RankedPlan: one.Plans[0], place: one.Devices})
		}
	}
	if len(rows) > 0 {
		searchTable(best, rows).Text(out)
	}
	for _, one := range s.Searches {
		if len(one.Plans) == 0 {
			out.Print("%s: %s\n", units.Plural(one.Devices, "device"), whyNone(one))
		}
	}
	if len(rows) > 0 {
		out.Print("\nhow sure: %s\n", strings.Join(sureOfAll(s), "\n  "))
	}
	for _, row := range rows {
		if settings {
			out.Print("\nsettings for %s\n%s", units.Plural(row.place, "device"), flagLines(row.Set))
		}
	}
	return out.Flush()
}

// searchTable makes the table of the best plans for several numbers of devices.
func searchTable(best rankings.PlanRanking, rows []layout) table.Table[layout] {
	t := planTable(best, rows)
	t.Columns[0].Head = "devices"
	noEpochs := !slices.ContainsFunc(rows, func(p layout) bool { return p.Epochs != nil })
	rate := slices.IndexFunc(t.Columns, func(c table.Column[layout]) bool { return c.Head == "tokens/s per device" })
	t.Columns = slices.Insert(t.Columns, rate+1,
		table.Column[layout]{Head: "tokens/s in total", Cell: func(p layout) any {
			return units.FormatPerSecond(p.Throughput.Tokens)
		}},
		table.Column[layout]{Head: "epoch", Hide: noEpochs, Cell: func(p layout) any {
			if p.Epochs == nil {
				return "-"
			}
			return units.FormatSeconds(p.Epochs.Time)
		}})
	return t
}

// whyNone says why a search has no plan.
func whyNone(p rankings.PlanRanking) string {
	switch {
	case p.Partial:
		return "interrupted before a plan was found"
	case p.Nothing != "":
		return "no plan: " + p.Nothing
	case p.Space == 0:
		return "no plan divides network, batch and devices as asked"
	}
	return "no plan fits in memory"
}

// sureOfAll says how reliable several searches are.
func sureOfAll(s rankings.PlanSearches) []string {
	list := []string{"proved: for each number, no other plan has a shorter step in psim's model"}
	var open []string
	for _, one := range s.Searches {
		if len(one.Plans) > 0 && one.Gap > 0 {
			open = append(open, fmt.Sprintf("with %s a better plan may take up to %s less",
				units.Plural(one.Devices, "device"), units.FormatPercent(one.Gap)))
		}
	}
	if open != nil {
		list = []string{"not proved: " + strings.Join(open, ", ")}
	}
	for _, one := range s.Searches {
		if len(one.Plans) == 0 {
			continue
		}
		if text := intervalText(one.Plans[0].Result); text != "" {
			list = append(list, units.Plural(one.Devices, "device")+": "+text)
		}
	}
	return list
}

// WritePlansCSV writes a row for every plan of a search, or for the best of each of several. Of a search
// without a plan it writes the devices alone.
func WritePlansCSV(w io.Writer, searches []rankings.PlanRanking) error {
	type row struct {
		devices int
		layout
	}
	var t table.Table[row]
	for _, one := range searches {
		if len(one.Plans) == 0 && len(searches) > 1 {
			t.Rows = append(t.Rows, row{devices: one.Devices})
		}
		for i, plan := range one.Plans {
			if i == 0 || len(searches) == 1 {
				t.Rows = append(t.Rows, row{one.Devices, layout{RankedPlan: plan, place: i + 1}})
			}
		}
	}
	add := func(head string, cell func(row) any) {
		t.Columns = append(t.Columns, table.Column[row]{Head: head, Cell: func(r row) any {
			if r.place == 0 {
				return ""
			}
			return cell(r)
		}})
	}
	t.Columns = []table.Column[row]{{Head: "devices", Cell: func(r row) any { return r.devices }}}
	add("place", func(r row) any { return r.place })
	add("step_time_s", func(r row) any { return r.StepTime })
	add("tokens_per_s", func(r row) any { return r.Throughput.Tokens })
	add("tokens_per_s_per_device", func(r row) any { return r.TokensPerDevice })
	add("mfu", func(r row) any { return r.MFU })
	add("peak_memory_bytes", func(r row) any { return r.PeakMemory() })
	for _, name := range rankings.PlanDimensions() {
		add(name, func(r row) any { return r.RankedPlan.Plan.Value(name) })
	}
	add("set", func(r row) any { return strings.Join(r.Set, " ") })
	return t.CSV(w)
}
