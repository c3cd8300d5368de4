package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"psim/internal/units"
)

// mostTries is how often the job that merges may find shards missing: it submits them again until then.
const mostTries = 3

// Submit submits the job array and the job that merges, and returns what was done in words. If the same submission was
// made before, it goes on: only what is missing is submitted.
func (s *Submission) Submit(ctx context.Context) (string, error) {
	most, err := MaxArraySize(ctx)
	if _, missing := exec.LookPath("sbatch"); missing != nil {
		err = ErrNoSlurm
	}
	if err != nil {
		return "", err
	}
	first, err := s.claim()
	if err != nil {
		return "", err
	}
	if !first {
		return s.Resubmit(ctx)
	}
	if err := errors.Join(s.write("shard.sh", s.shardScript()), s.write("merge.sh", s.mergeScript())); err != nil {
		return "", err
	}
	done, err := s.send(ctx, sending{shards: s.all(), most: most, try: 1})
	if errors.As(err, new(SaidError)) && done == "" { // nothing was submitted: leave nothing behind
		os.RemoveAll(s.inside(""))
		os.Remove(s.Folder) // unless there is anything in it
	}
	return done, err
}

// A sending is what is to be submitted.
type sending struct {
	shards []int
	most   int      // tasks of an array
	after  []string // arrays that the merge waits for besides
	try    int
}

// send submits shards, and the job that merges after these and other arrays, and says which jobs they are.
func (s *Submission) send(ctx context.Context, what sending) (done string, err error) {
	var jobs []string
	for _, b := range blocksOf(what.shards, what.most) {
		id, err := submit(ctx, s.arrayArgs(b))
		if err != nil {
			if len(jobs) == 0 {
				return "", err
			}
			return "submitted only job " + strings.Join(jobs, ", "), err
		}
		jobs = append(jobs, id)
	}
	dependency := ""
	if all := append(jobs, what.after...); len(all) > 0 {
		dependency = "afterany:" + strings.Join(all, ":")
	}
	merge, err := submit(ctx, s.mergeArgs(dependency, what.try))
	if err != nil {
		return "submitted, but not what merges: job " + strings.Join(jobs, ", "), err
	}
	if len(jobs) == 0 {
		return "submitted the merge as job " + merge, nil
	}
	return fmt.Sprintf("submitted %s as job %s, and the merge as job %s",
		units.Plural(len(what.shards), "shard"), strings.Join(jobs, ", "), merge), nil
}

// Resubmit submits again what is missing or has failed, and says what it did.
func (s *Submission) Resubmit(ctx context.Context) (string, error) {
	now, err := s.Outlook(ctx)
	if err != nil {
		return "", err
	}
	shards := now.in(Missing, Failed)
	switch {
	case len(shards) > 0:
		most, err := MaxArraySize(ctx)
		if err == nil { // nothing is submitted where nothing can be written
			err = errors.Join(s.write("shard.sh", s.shardScript()), s.write("merge.sh", s.mergeScript()))
		}
		if err != nil {
			return "", err
		}
		return s.send(ctx, sending{shards: shards, most: most, after: now.jobs, try: 1})
	case now.Answered:
		return "the answer is there already", nil
	case now.Merging == "":
		return s.send(ctx, sending{after: now.jobs, try: 1})
	}
	return "was submitted before and goes on: nothing is missing", nil
}

// in lists the numbers of the shards in some states.
func (s *Outlook) in(states ...string) (list []int) {
	for _, f := range s.Fates {
		if slices.Contains(states, f.State) {
			list = append(list, f.Number)
		}
	}
	return list
}

// Ready is what the job that merges asks before: it returns "" if all shards are there. Otherwise it submits missing
// shards again, at most mostTries times in all, and says so.
func (s *Submission) Ready(ctx context.Context, try int) (string, error) {
	now, err := s.Outlook(ctx)
	if err != nil {
		return "", err
	}
	missing, text := now.in(Missing), strings.Builder{}
	for _, f := range now.Fates {
		if f.State == Missing || f.State == Failed {
			fmt.Fprintf(&text, "shard %d %s: %s\n", f.Number, strings.Replace(f.State, Missing, "is missing", 1), f.Why)
		}
	}
	again := fmt.Sprintf("psim status %s --resubmit submits them again", Quoted(s.Folder))
	switch {
	case now.Count(Done) == s.Shards:
		return "", nil
	case now.Count(Failed) > 0:
		return text.String() + "shards that fail so would fail again; " + again, nil
	case len(missing) > 0 && try >= mostTries:
		return fmt.Sprintf("%s%d times is enough; %s", text.String(), try, again), nil
	case len(missing) == 0:
		try-- // others have submitted these
	}
	most, err := MaxArraySize(ctx)
	if err != nil {
		return "", err
	}
	done, err := s.send(ctx, sending{shards: missing, most: most, after: now.jobs, try: try + 1})
	if errors.As(err, new(SaidError)) {
		return fmt.Sprintf("%s%s %v; on a login node, %s", text.String(), done, err, again), nil
	}
	return text.String() + done, err
}
