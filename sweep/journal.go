package sweep

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	"psim/internal/files"
	"psim/reports"
	"psim/results/rankings"
)

// sweepJournalName names the file in which a sweep keeps the points that it has
// finished, until the files of the whole sweep hold them.
const sweepJournalName = "sweep.journal"

// sweepJournalHead begins the journal of a sweep.
const sweepJournalHead = `{"psim_sweep":`

// sweepJournal holds lines of points, below ones that say which version of psim has
// found them.
type sweepJournal struct {
	*files.Journal
	version string
	found   int  // points that are in it
	damaged int  // lines that cannot be read
	headed  bool // its last head is of this version
}

// journalHead tells a journal of psim, and which version wrote what follows.
type journalHead struct {
	Sweep   int    `json:"psim_sweep"`
	Version string `json:"version"`
}

// openSweep opens the journal of a folder, and reads the points that are in it and in
// the files of a finished sweep, by their fingerprints. Those of another version of
// psim are there by other keys.
func openSweep(folder, version string) (*sweepJournal, map[string]rankings.SweepPoint, error) {
	if err := reports.SweepFolder(folder).Check(); err != nil {
		return nil, nil, err
	}
	before, err := rankings.LoadSweep(folder)
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, err
	}
	known := map[string]rankings.SweepPoint{}
	keep := func(by string, p rankings.SweepPoint) {
		if by != version {
			p.Key = by + " " + p.Key
		}
		known[p.Key] = p
	}
	for _, p := range before.Points {
		keep(before.Version, p)
	}
	path := filepath.Join(folder, sweepJournalName)
	opened, lines, err := files.OpenJournal(path, sweepJournalHead)
	if err != nil {
		return nil, nil, err
	}
	j := &sweepJournal{Journal: opened, version: version}
	j.read(lines, keep)
	return j, known, nil
}

// read passes on the points of a journal, and the version of psim that found them.
// Below a damaged line that may have been a head nobody knows the version.
func (j *sweepJournal) read(lines [][]byte, keep func(version string, p rankings.SweepPoint)) {
	var head journalHead
	for _, line := range lines {
		next := journalHead{}
		if json.Unmarshal(line, &next) == nil && next.Sweep > 0 {
			head = next
			continue
		}
		p, err := rankings.ParseSweepPoint(line)
		if err != nil && !bytes.HasPrefix(line, []byte(`{"index":`)) {
			head = journalHead{}
		}
		if head.Sweep == 0 || err != nil {
			j.damaged++
			continue
		}
		keep(head.Version, p)
		j.found++
	}
	j.headed = head.Sweep > 0 && head.Version == j.version
}

// add appends a point.
func (j *sweepJournal) add(p rankings.SweepPoint) error {
	if !j.headed {
		head, err := json.Marshal(journalHead{1, j.version})
		if err == nil {
			err = j.Append(head)
		}
		if err != nil {
			return err
		}
		j.headed = true
	}
	line, err := p.Line()
	if err == nil {
		err = j.Append(line)
	}
	if err == nil {
		j.found++
	}
	return err
}

// leave closes the journal for a later sweep, or removes it if nothing is in it.
func (j *sweepJournal) leave() error {
	if j.found == 0 {
		return j.Remove()
	}
	return j.Close()
}
