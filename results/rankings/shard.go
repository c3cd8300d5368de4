package rankings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Shard is one of several parts of a sweep that are computed separately: every Of-th point,
// beginning with index Number-1. The zero Shard is the whole sweep.
type Shard struct {
	Number, Of int // Number counts from 1
}

// String prints I/N, or nothing for the whole sweep.
func (s Shard) String() string {
	if s == (Shard{}) {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Number, s.Of)
}

// Folder names the folder of a shard within the folder of the sweep.
func (s Shard) Folder() string { return fmt.Sprintf("shard-%d-of-%d", s.Number, s.Of) }

// Has reports whether the shard has the point with an index.
func (s Shard) Has(index int) bool { return s.Of == 0 || index%s.Of == s.Number-1 }

// Check returns an error if the number of the shard is not between 1 and the number of parts.
func (s Shard) Check() error {
	if s != (Shard{}) && (s.Number < 1 || s.Number > s.Of) {
		return fmt.Errorf("%d/%d: no such shard; the first of four is 1/4, the last is 4/4", s.Number, s.Of)
	}
	return nil
}

// ParseShard reads I/N, as in 1/4 to 4/4. "auto" is the index of this process in a job array
// of Slurm, and auto/N its index in an indexed job of Kubernetes, which does not say how many
// tasks it has. lookup finds environment variables, as os.LookupEnv does.
func ParseShard(text string, lookup func(string) (string, bool)) (Shard, error) {
	first, count, cut := strings.Cut(text, "/")
	of, err := strconv.Atoi(count)
	switch {
	case cut && (err != nil || of < 1):
		return Shard{}, fmt.Errorf("%q: must be I/N, such as 1/4 for the first of four, or auto", text)
	case first == "auto":
		return shardOfJob(of, lookup)
	}
	number, err := strconv.Atoi(first)
	if err != nil || !cut {
		return Shard{}, fmt.Errorf("%q: must be I/N, such as 1/4 for the first of four, or auto", text)
	}
	s := Shard{number, of}
	return s, s.Check()
}

// shardOfJob finds the index of this process among the tasks of a job. If of is 0, the job
// must say how many tasks it has.
func shardOfJob(of int, lookup func(string) (string, bool)) (Shard, error) {
	number := func(name string, missing int) int {
		if text, ok := lookup(name); ok && text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return -1
			}
			return n
		}
		return missing
	}
	s := Shard{Of: of}
	slurm, kubernetes := number("SLURM_ARRAY_TASK_ID", -1), number("JOB_COMPLETION_INDEX", -1)
	switch {
	case slurm >= 0:
		first, last := number("SLURM_ARRAY_TASK_MIN", 0), number("SLURM_ARRAY_TASK_MAX", slurm)
		step := max(1, number("SLURM_ARRAY_TASK_STEP", 1))
		tasks := number("SLURM_ARRAY_TASK_COUNT", of)
		if of == 0 {
			s.Of = tasks
		}
		if tasks != s.Of || (last-first)/step+1 > s.Of {
			return Shard{}, fmt.Errorf("the job array has %d tasks, %d to %d, which are not %d in a row; give I/N",
				tasks, first, last, s.Of)
		}
		s.Number = (slurm-first)/step + 1
	case kubernetes >= 0 && of == 0:
		return Shard{}, errors.New("auto: Kubernetes does not say how many tasks its job has; " +
			"give auto/N, with the job's completions")
	case kubernetes >= 0:
		s.Number = kubernetes + 1
	default:
		return Shard{}, errors.New("auto: this process is not a task of a job array: " +
			"neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set; give I/N")
	}
	return s, s.Check()
}
