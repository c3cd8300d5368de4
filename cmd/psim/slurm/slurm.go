// Package slurm runs a search or a sweep as a job array of Slurm: every task of the array is a shard, and a job that
// depends on the array merges them. [Submission.Submit] writes the scripts (scripts.go) and hands them to sbatch
// (queue.go). The files of the shared folder and Slurm's queue say how far the shards are, and nothing else does
// (outlook.go): psim may end after a submission, and whoever asks later knows as much. Files are replaced by renaming,
// and nothing is locked.
//
//	DIR/slurm/job.json       the submission
//	DIR/slurm/shard.sh       the script of a shard, and merge.sh that of the merge
//	DIR/slurm/shard-3.log    what the shard printed
//	DIR/slurm/shard-3.end    its exit code, seconds and node
//	DIR/parts/shard-3-of-16  its files; shards of a search share DIR/parts/steps-….json
//	DIR/answer.txt           what the merge printed; its files are in DIR
package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"psim/internal/files"
	"psim/internal/jsonfile"
)

// A Submission says what a job array computes.
type Submission struct {
	Program       string   `json:"program"` // the path of psim
	Version       string   `json:"version"` // what psim version prints
	Work          string   `json:"work"`    // the folder in which the command was given
	Folder        string   `json:"folder"`  // of --out, from the root
	Verb          string   `json:"verb"`    // search or sweep
	Args          []string `json:"args"`    // CONFIG and the flags of a shard
	Merge         []string `json:"merge"`   // further flags of the merge
	Shards        int      `json:"shards"`
	Partition     string   `json:"partition,omitempty"`
	Time          string   `json:"time,omitempty"`
	Configuration string   `json:"configuration"` // the fingerprint of CONFIG
}

// inside returns the path of a file about the job.
func (s *Submission) inside(name string) string { return filepath.Join(s.Folder, "slurm", name) }

// name returns the name of the job in Slurm, which no other folder's has: by it a queue is searched.
func (s *Submission) name() string {
	h := fnv.New32a()
	io.WriteString(h, s.Folder)
	return fmt.Sprintf("psim-%08x", h.Sum32())
}

// Load reads the submission of a folder.
func Load(folder string) (*Submission, error) {
	full, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	s, err := files.Read(filepath.Join(full, "slurm", "job.json"), func(r io.Reader) (*Submission, error) {
		s := new(Submission)
		err := jsonfile.Read(r, jsonfile.MostBytes, s)
		if err == nil && (s.Shards < 1 || s.Verb != "search" && s.Verb != "sweep") {
			err = errors.New("is not a job.json of psim: verb or shards is wrong")
		}
		return s, err
	})
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%s: holds nothing that was submitted with --submit slurm", folder)
	}
	if err == nil {
		s.Folder = full // which may be mounted elsewhere here
	}
	return s, err
}

// An OtherError says that a folder has another submission.
type OtherError struct{ text string }

// Error names the other submission.
func (e OtherError) Error() string { return e.text }

// claim makes the folder for the files about the job. It returns false if this submission has made it before.
func (s *Submission) claim() (bool, error) {
	if err := os.MkdirAll(s.Folder, 0o777); err != nil {
		return false, fmt.Errorf("%s: %s", s.Folder, files.Reason(err))
	}
	err := os.Mkdir(s.inside(""), 0o777) // of two commands at once, one makes it
	if err == nil {
		text, err := json.MarshalIndent(s, "", "  ")
		if err == nil {
			err = s.write("job.json", string(text)+"\n")
		}
		return true, err
	}
	if !os.IsExist(err) {
		return false, fmt.Errorf("%s: %s", s.inside(""), files.Reason(err))
	}
	there, err := Load(s.Folder)
	if err != nil {
		return false, err
	}
	switch mine := *s; {
	case there.Version != s.Version:
		return false, OtherError{fmt.Sprintf("%s: was submitted by %s, and this is %s; name another folder",
			s.Folder, there.Version, s.Version)}
	case there.Configuration != s.Configuration:
		return false, OtherError{fmt.Sprintf("%s: was submitted for other contents of the configuration; "+
			"name another folder", s.Folder)}
	case !reflect.DeepEqual(*there, mine):
		return false, OtherError{fmt.Sprintf("%s: another command was submitted for it (%s); name another folder",
			s.Folder, there.command())}
	}
	return false, nil
}

// write writes a file about the job.
func (s *Submission) write(name, text string) error { return files.Swap(s.inside(name), []byte(text)) }
