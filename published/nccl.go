package published

import (
	"fmt"
	"slices"

	"psim/calibrate"
	"psim/configs"
	"psim/costmodel/link"
	"psim/schedules/graph"
)

// ncclClaim tells what the plain model does on the same rows: there is no other
// tool that publishes its error on them.
const ncclClaim = "none known; one latency and one bandwidth per number of GPUs, fitted to twelve sizes of the same rows, is 2.6 to 5.4 % off (A100) and 0.2 to 6.1 % (V100) on average"

// ncclTable returns a catalog link's all-reduces.
func ncclTable(name, file, link string) Table {
	return Table{
		Name: name, Title: "NCCL all-reduce of 2 to 8 GPUs, 1 MiB to 1 GiB, " + link, Figure: name,
		Paper: "Bang et al. 2024, vTrain, arXiv 2312.12391; its repository", Place: "NCCL tables in trace/, commit f8dda84",
		Fitted: "call, bandwidth and first size of two or three ranges of sizes for every number of GPUs, from every second size (the 1st, 3rd, …); error on the others",
		Claim:  ncclClaim,
		Note: "A range stands for what the library does at its sizes: it changes protocol (LL128, then Simple) and algorithm. Where it changes so late that a longer message takes less time, " +
			"the prediction does not follow: no size takes longer than a larger one. There, and where the time goes up by a stair (n · 3 MiB on A100), are the worst rows.",
		Rows: func() ([]Row, error) {
			l, err := catalogLink(link)
			if err != nil {
				return nil, err
			}
			return rowPer(ncclTimings(records(file), "ns"), func(t ncclTiming) (Row, error) { return t.row(l), nil })
		},
	}
}

// An ncclTiming is a row of the NCCL tables.
type ncclTiming struct {
	calibrate.CollectiveTiming
	used bool
}

// ncclTimings reads rows with times in a unit; of every number of ranks the first,
// third, … size are used to fit.
func ncclTimings(rows []record, unit string) []ncclTiming {
	var list []ncclTiming
	seen := map[int]int{}
	for _, r := range rows {
		n := r.count("n_gpus")
		seen[n]++
		t := calibrate.CollectiveTiming{Kind: graph.AllReduce, Ranks: n, Bytes: int64(r.count("size_bytes")), Time: r.duration("time_"+unit, unit)}
		list = append(list, ncclTiming{t, seen[n]%2 == 1})
	}
	return list
}

func (t ncclTiming) row(l link.Link) Row {
	return Row{
		Label: fmt.Sprintf("%d GPUs %s", t.Ranks, binary(t.Bytes)), Unit: "ms", Used: t.used,
		Published: 1e3 * t.Time.Seconds(),
		Predicted: 1e3 * l.CollectiveTime(graph.AllReduce, t.Ranks, t.Bytes).Seconds(),
	}
}

func catalogLink(name string) (link.Link, error) {
	for _, l := range configs.Catalog().Links {
		if l.Name == name {
			return l, nil
		}
	}
	return link.Link{}, fmt.Errorf("the catalog has no link %s", name)
}

// binary prints a size as nccl-tests count: in powers of 1024.
func binary(bytes int64) string {
	unit := 0
	for ; bytes >= 1024 && bytes%1024 == 0 && unit < 3; unit++ {
		bytes /= 1024
	}
	return fmt.Sprint(bytes, []string{" B", " KiB", " MiB", " GiB"}[unit])
}

// ncclOthers returns all-reduces of five more machines, by a link each that is
// fitted here: a network's would hold for one shape of nodes alone, so that only
// those of links are in the catalog.
func ncclOthers() Table {
	return Table{
		Name: "nccl-other-machines", Title: "NCCL all-reduce of 2080 Ti, H100, H200 and B200, 8 B to 16 GiB", Figure: "nccl-other-machines",
		Paper:  "stas00/ml-engineering, network README; ztan's NCCL test on GCP a3-mega; Anthony-Hoo's AutoDL test",
		Place:  "tables of measurements, see testdata/nccl_other.csv",
		Fitted: "one to three ranges of sizes for every machine, from every second size (the 1st, 3rd, …); error on the others",
		Note:   "The two B200 tables are single runs that are not smooth: 8 GPUs take 96 µs for 4 MiB, 116 for 8 and 115 for 16.",
		Rows:   func() ([]Row, error) { return rowsPer([]string{"A", "B", "C", "D", "E"}, ncclMachineRows) },
	}
}

// rcclMachines returns the same of AMD's devices and library.
func rcclMachines() Table {
	return Table{
		Name: "rccl-machines", Title: "RCCL all-reduce of 8 MI300X and 8 MI355X, 1 KiB to 8 GiB", Figure: "rccl-machines",
		Paper:  "hisohara/ai-scripts, RCCL smoke test; prasad-nair-amd/alibaba",
		Place:  "tables of measurements, see testdata/nccl_other.csv",
		Fitted: "three ranges of sizes for either machine, from every second size (the 1st, 3rd, …); error on the others",
		Rows:   func() ([]Row, error) { return rowsPer([]string{"F", "G"}, ncclMachineRows) },
	}
}

// ncclMachineRows predicts one machine's rows by a link that is fitted to every second one.
func ncclMachineRows(source string) ([]Row, error) {
	machine := ncclMachine(source)
	list := ncclTimings(machine, "us")
	link, err := calibrate.FitTimings(usedTimings(list))
	if err != nil {
		return nil, err
	}
	return rowPer(list, func(t ncclTiming) (Row, error) {
		row := t.row(link)
		row.Label = machine[0].text("hw") + " " + row.Label
		return row, nil
	})
}

// ncclMachine returns the rows of one machine of nccl_other.csv.
func ncclMachine(source string) []record {
	return slices.DeleteFunc(records("nccl_other.csv"), func(r record) bool { return r.text("src") != source })
}

// usedTimings returns those that a fit may see.
func usedTimings(list []ncclTiming) (used []calibrate.CollectiveTiming) {
	for _, t := range list {
		if t.used {
			used = append(used, t.CollectiveTiming)
		}
	}
	return used
}
