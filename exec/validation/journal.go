package validation

import (
	"cmp"
	"encoding/json"
	"fmt"

	"psim/internal/files"
	"psim/internal/units"
)

// journalHead begins the journal of a report.
const journalHead = `{"psim_executed_runs":`

// A journal keeps runs until a report has all of them.
type journal struct {
	*files.Journal               // nil for none
	rows           []ExecutedRow // one for each run
}

// A heading is the first line of a journal. All runs in the journal have it in common.
type heading struct {
	Version int    `json:"psim_executed_runs"`
	Machine string `json:"machine"`
	SIMD    string `json:"simd"`
	Devices int    `json:"devices"`
	Flags   string `json:"flags"`
}

// String says what the runs have in common.
func (h heading) String() string {
	return fmt.Sprintf("of %s on %s (%s), with%s",
		units.Plural(h.Devices, "device"), h.Machine, h.SIMD, cmp.Or(h.Flags, " the usual options"))
}

// openJournal opens or creates a file, and reads its runs, which must be of the same machine
// and options. It leaves out damaged ones, and calls warn with their number.
func openJournal(path string, r *ExecutedReport, warn func(string)) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	opened, lines, err := files.OpenJournal(path, journalHead)
	if err != nil {
		return nil, err
	}
	j, own := &journal{Journal: opened}, heading{1, r.Machine, r.SIMD, r.Devices, r.Flags}
	if len(lines) == 0 {
		line, err := json.Marshal(own)
		if err == nil {
			err = j.Append(line)
		}
		return j, err
	}
	var before heading
	if err := json.Unmarshal(lines[0].Text, &before); err != nil || before != own {
		opened.Close()
		return nil, fmt.Errorf("%s: holds experiments %s; these are %s; remove the file, or name another",
			path, before, own)
	}
	damaged := 0
	for _, line := range lines[1:] {
		var row ExecutedRow
		if line.Damaged || json.Unmarshal(line.Text, &row) != nil {
			damaged++
			continue
		}
		j.rows = append(j.rows, row)
	}
	if damaged > 0 && warn != nil {
		warn(fmt.Sprintf("%s in %s cannot be trusted; the experiments are run again",
			units.Plural(damaged, "line"), path))
	}
	return j, nil
}

// runs finds the runs of an experiment.
func (j *journal) runs(e experiment) (list []ExecutedRow) {
	for _, row := range j.rows {
		same := row.Example == e.model && row.Kind == e.kind && row.Microbatches == e.microbatches
		if same && row.Processes == e.processes && row.MPI == e.mpi {
			list = append(list, row)
		}
	}
	return list
}

// add adds a run.
func (j *journal) add(row ExecutedRow) error {
	j.rows = append(j.rows, row)
	if j.Journal == nil {
		return nil
	}
	line, err := json.Marshal(row)
	if err == nil {
		err = j.Append(line)
	}
	return err
}

// close closes the journal and leaves the file as it is.
func (j *journal) close() error {
	if j.Journal == nil {
		return nil
	}
	return j.Close()
}
