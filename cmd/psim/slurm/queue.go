package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// A SaidError is what a command of Slurm said when it failed.
type SaidError struct{ text string }

// Error repeats it.
func (e SaidError) Error() string { return e.text }

// ErrNoSlurm says that the commands of Slurm are not here.
var ErrNoSlurm = errors.New("there is no sbatch on the PATH; give the command where Slurm is, " +
	"or print its scripts with --dry-run")

// call runs a command of Slurm and returns what it prints.
func call(ctx context.Context, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		if name == "sbatch" {
			return "", ErrNoSlurm
		}
		return "", SaidError{fmt.Sprintf("there is no %s on the PATH", name)}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	for _, v := range os.Environ() { // a job within a job takes none of its settings
		if !strings.HasPrefix(v, "SLURM_") || strings.HasPrefix(v, "SLURM_CONF=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		text := strings.Join(strings.Fields(said.String()), " ")
		if text == "" {
			text = err.Error()
		}
		return "", SaidError{fmt.Sprintf("%s says: %s", name, text)}
	}
	return out.String(), nil
}

// MaxArraySize asks Slurm how many tasks an array may have.
func MaxArraySize(ctx context.Context) (int, error) {
	text, err := call(ctx, "scontrol", "show", "config")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) != "MaxArraySize" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 1 {
			return 0, SaidError{"Slurm has no job arrays here: MaxArraySize = " + strings.TrimSpace(value)}
		}
		return n, nil
	}
	return 0, SaidError{"scontrol show config does not say MaxArraySize"}
}

// submit hands a script to sbatch, and returns the number of the job.
func submit(ctx context.Context, args []string) (string, error) {
	text, err := call(ctx, "sbatch", args...)
	id, _, _ := strings.Cut(strings.TrimSpace(text), ";") // ID;CLUSTER
	return id, err
}

// A queued task is one that Slurm has not ended.
type queued struct {
	job, state, node, reason string
	shard                    int // 0 for the job that merges
	seconds                  float64
}

// running reports whether the task has begun.
func (q queued) running() bool { return q.state != "PENDING" && q.state != "REQUEUED" }

// queue lists the tasks of the submission that Slurm has not ended. Tasks that Slurm is cleaning up have ended.
func (s *Submission) queue(ctx context.Context) (list []queued, err error) {
	text, err := call(ctx, "squeue", "--noheader", "--array", "--user="+strconv.Itoa(os.Getuid()),
		"--format=%i|%K|%j|%T|%M|%N|%r")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 7 || f[3] == "COMPLETING" {
			continue
		}
		what, ours := strings.CutPrefix(f[2], s.name()+"-")
		if !ours {
			continue
		}
		job, _, _ := strings.Cut(f[0], "_")
		q := queued{job: job, state: f[3], seconds: clock(f[4]), node: f[5], reason: f[6]}
		if what != "merge" {
			first, wrong := strconv.Atoi(what)
			task, wrongTask := strconv.Atoi(f[1])
			if wrong != nil || wrongTask != nil {
				continue
			}
			q.shard = first + task
		}
		list = append(list, q)
	}
	return list, nil
}

// clock reads a time as Slurm prints it, D-HH:MM:SS, in seconds.
func clock(text string) (seconds float64) {
	days, rest, found := strings.Cut(text, "-")
	if !found {
		days, rest = "0", text
	}
	for _, part := range strings.Split(rest, ":") {
		n, _ := strconv.ParseFloat(part, 64)
		seconds = seconds*60 + n
	}
	n, _ := strconv.ParseFloat(days, 64)
	return seconds + n*24*3600
}
