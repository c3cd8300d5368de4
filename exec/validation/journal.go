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

// A journal keeps runs, until a report has them all.
type journal struct {
	*files.Journal       // nil for none
	rows           []Row // of a run each
}

// A heading is the first line of a journal: what all of its runs have in common.
type heading struct {
	Version int    `json:"psim_executed_runs"`
	Machine string `json:"machine"`
	SIMD    string `json:"simd"`
	Devices int    `json:"devices"`
	Flags   string `json:"flags"`
}

// String says what runs have in common.
func (h heading) String() string {
	return fmt.Sprintf("of %s on %s (%s), with%s", units.Plural(h.Devices, "device"), h.Machine, h.SIMD, cmp.Or(h.Flags, " the usual options"))
}

// openJournal opens a file, or makes it, and reads the runs in it, which have to be of the
// same machine and options.
func openJournal(path string, r *Report) (*journal, error) {
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
	if err := json.Unmarshal(lines[0], &before); err != nil || before != own {
		opened.Close()
		return nil, fmt.Errorf("%s: holds experiments %s; these are %s; remove the file, or name another", path, before, own)
	}
	for n, line := range lines[1:] {
		var row Row
		if err := json.Unmarshal(line, &row); err != nil {
			opened.Close()
			return nil, fmt.Errorf("%s: line %d is no run of an experiment: %w; remove the line", path, n+2, err)
		}
		j.rows = append(j.rows, row)
	}
	return j, nil
}

// runs finds those of an experiment.
func (j *journal) runs(e experiment) (list []Row) {
	for _, row := range j.rows {
		if row.Example == e.model && row.Kind == e.kind && row.Microbatches == e.microbatches && row.Processes == e.processes && row.MPI == e.mpi {
			list = append(list, row)
		}
	}
	return list
}

func (j *journal) add(row Row) error {
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

// close leaves the journal as it is.
func (j *journal) close() error {
	if j.Journal == nil {
		return nil
	}
	return j.Close()
}
