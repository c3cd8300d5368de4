package sweep

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"

	"psim/internal/files"
	"psim/results/rankings"
)

// journalName names the file in which a sweep keeps its finished points until the files of
// the whole sweep hold them.
const journalName = "sweep.journal"

// journalPrefix is the beginning of every journal.
const journalPrefix = `{"psim_sweep":`

// journal is a file with a line for every point. The points of a version of psim are below
// a line with a journalHead.
type journal struct {
	*files.Journal
	version string
	points  int  // points in the file
	damaged int  // lines that cannot be read
	hasHead bool // whether the last head has this version
}

// journalHead marks a journal of psim, and names the version that wrote the lines below.
type journalHead struct {
	Sweep   int    `json:"psim_sweep"`
	Version string `json:"version"`
}

// openJournal opens the journal of a folder. It also returns the points in the journal and
// in the files of a finished sweep, by their fingerprints. The keys of points of other
// versions of psim begin with the version.
func openJournal(to files.Folder, version string) (*journal, map[string]rankings.SweepPoint, error) {
	if err := to.Check(); err != nil {
		return nil, nil, err
	}
	before, err := rankings.LoadSweep(to.Path)
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
	path := filepath.Join(to.Path, journalName)
	opened, lines, err := files.OpenJournal(path, journalPrefix)
	if err != nil {
		return nil, nil, err
	}
	j := &journal{Journal: opened, version: version}
	j.read(lines, keep)
	return j, known, nil
}

// read calls keep with the points of a journal, and the version of psim that computed
// them. Below a damaged line that may have been a head, points are damaged too, since
// their version is unknown.
func (j *journal) read(lines []files.Line, keep func(version string, p rankings.SweepPoint)) {
	var head journalHead
	for _, line := range lines {
		next := journalHead{}
		if !line.Damaged && json.Unmarshal(line.Text, &next) == nil && next.Sweep > 0 {
			head = next
			continue
		}
		p, err := rankings.ParseSweepPoint(line.Text)
		damaged := err != nil || line.Damaged
		if damaged && !bytes.HasPrefix(line.Text, []byte(`{"index":`)) {
			head = journalHead{}
		}
		if head.Sweep == 0 || damaged {
			j.damaged++
			continue
		}
		keep(head.Version, p)
		j.points++
	}
	j.hasHead = head.Sweep > 0 && head.Version == j.version
}

// add appends a point.
func (j *journal) add(p rankings.SweepPoint) error {
	if !j.hasHead {
		head, err := json.Marshal(journalHead{1, j.version})
		if err == nil {
			err = j.Append(head)
		}
		if err != nil {
			return err
		}
		j.hasHead = true
	}
	line, err := p.Line()
	if err == nil {
		err = j.Append(line)
	}
	if err == nil {
		j.points++
	}
	return err
}

// closeForLater closes the journal for a later sweep, or removes it if it is empty.
func (j *journal) closeForLater() error {
	if j.points == 0 {
		return j.Remove()
	}
	return j.Close()
}
