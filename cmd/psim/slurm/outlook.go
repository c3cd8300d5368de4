package slurm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/files"
	"psim/plans"
	"psim/results/rankings"
)

// The states of a shard.
const (
	Done    = "done"    // its files are there
	Running = "running" // by Slurm's queue
	Waiting = "waiting" // in Slurm's queue
	Failed  = "failed"  // with a wrong configuration or another psim, as it would again
	Missing = "missing" // neither there nor in the queue
)

// A Fate says how far a shard is.
type Fate struct {
	Number  int
	State   string
	Node    string
	Seconds float64 // since it began, or until it ended
	CPU     float64 // seconds of all its cores, 0 until it ends
	Why     string  // it failed, is missing or waits
}

// An Outlook says how far a submission is.
type Outlook struct {
	Fates []Fate
	// Merging is Running or Waiting if the job that merges is in the queue, else "".
	Merging string
	// Answered says that the files of the merge are there.
	Answered bool
	// Best is the shortest step that any shard of a search knows, 0 if none is known.
	Best time.Duration
	// Seconds is the time since the submission, until the answer.
	Seconds float64
	// Left is about how many seconds are left, −1 if nothing is known.
	Left float64
	jobs []string // arrays in the queue
}

// Count returns how many shards are in a state.
func (s *Outlook) Count(state string) (n int) {
	for _, f := range s.Fates {
		if f.State == state {
			n++
		}
	}
	return n
}

// Outlook finds out how far the submission is, from its files and Slurm's queue.
func (s *Submission) Outlook(ctx context.Context) (*Outlook, error) {
	list, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}
	now := &Outlook{Left: -1, Answered: finished(s.Folder, s.Verb)}
	tasks := map[int]queued{}
	self := os.Getenv("SLURM_JOB_ID")
	for _, q := range list {
		switch {
		case q.shard > 0:
			tasks[q.shard] = q
			if !slices.Contains(now.jobs, q.job) {
				now.jobs = append(now.jobs, q.job)
			}
		case q.job == self: // this process
		case q.running():
			now.Merging = Running
		default:
			now.Merging = Waiting
		}
	}
	for _, n := range s.all() {
		task, queued := tasks[n]
		now.Fates = append(now.Fates, s.fate(n, task, queued))
	}
	if s.Verb == "search" {
		now.Best = plans.BestShared(filepath.Join(s.Folder, "parts"))
	}
	now.estimate(s)
	return now, nil
}

// fate finds out how far a shard is, which may be in the queue.
func (s *Submission) fate(n int, task queued, inQueue bool) Fate {
	f := Fate{Number: n, State: Missing}
	code := s.ended(n, &f)
	shard := rankings.Shard{Number: n, Of: s.Shards}
	switch {
	case finished(filepath.Join(s.Folder, "parts", shard.Folder()), s.Verb):
		f.State = Done
	case inQueue && task.running():
		f = Fate{Number: n, State: Running, Node: task.node, Seconds: task.seconds}
	case inQueue:
		f = Fate{Number: n, State: Waiting, Why: task.reason}
	case code == 2:
		f.State, f.Why = Failed, s.lastWords(n)
	case code >= 0:
		f.Why = fmt.Sprintf("exit code %d", code)
		if words := s.lastWords(n); words != "" {
			f.Why += ": " + words
		}
	case files.Exists(s.inside(fmt.Sprintf("shard-%d.log", n))):
		f.Why = "was ended from outside"
	default:
		f.Why = "never began"
	}
	return f
}

// ended reads the file that a shard writes last, and returns its exit code, or -1.
func (s *Submission) ended(n int, f *Fate) int {
	data, err := os.ReadFile(s.inside(fmt.Sprintf("shard-%d.end", n)))
	words := strings.Fields(string(data))
	if err != nil || len(words) < 7 { // of the shell and of psim: user, system
		return -1
	}
	code, err := strconv.Atoi(words[0])
	if err != nil {
		return -1
	}
	f.Seconds, _ = strconv.ParseFloat(words[1], 64)
	f.Node = words[2]
	for _, word := range words[3:7] { // as 1m2.345s
		if d, err := time.ParseDuration(word); err == nil {
			f.CPU += d.Seconds()
		}
	}
	return code
}

// lastWords returns the last message of a shard.
func (s *Submission) lastWords(n int) (words string) {
	data, _ := os.ReadFile(s.inside(fmt.Sprintf("shard-%d.log", n)))
	for line := range strings.Lines(string(data)) {
		if message, ok := strings.CutPrefix(strings.TrimSpace(line), "psim: "); ok {
			words = message
		}
	}
	return words
}

// finished reports whether a folder has the files of a whole search or sweep.
func finished(folder, verb string) bool {
	if verb == "sweep" {
		return files.Exists(filepath.Join(folder, "sweep.json"))
	}
	data, err := os.ReadFile(filepath.Join(folder, "plans.json"))
	var plans struct {
		Partial bool `json:"partial"`
	}
	return err == nil && json.Unmarshal(data, &plans) == nil && !plans.Partial
}

// estimate finds how long it has taken, and how long it will if shards take as long as those that are done.
func (s *Outlook) estimate(of *Submission) {
	answer := "plans.json"
	if of.Verb == "sweep" {
		answer = "sweep.json"
	}
	if begin, err := os.Stat(of.inside("job.json")); err == nil {
		end := time.Now()
		if info, err := os.Stat(filepath.Join(of.Folder, answer)); s.Answered && err == nil {
			end = info.ModTime()
		}
		s.Seconds = max(0, end.Sub(begin.ModTime()).Seconds())
	}
	var took []float64
	for _, f := range s.Fates {
		if f.State == Done {
			took = append(took, f.Seconds)
		}
	}
	running := s.Count(Running)
	if len(took) == 0 || running == 0 {
		return
	}
	slices.Sort(took)
	median, work := took[len(took)/2], 0.0
	for _, f := range s.Fates {
		if f.State == Waiting || f.State == Running {
			work += max(0, median-f.Seconds)
		}
	}
	s.Left = work / float64(running)
}
