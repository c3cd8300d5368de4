// Package pytorch trains configurations in PyTorch on this machine: it finds a Python with PyTorch
// ([Find]), runs the program of package export, and reads what it measured ([Execute]).
package pytorch

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"psim/results"
)

// Variable names the Python to use.
const Variable = "PSIM_PYTHON"

// Find returns the Python that $PSIM_PYTHON names or, without it, the first with PyTorch: of the active
// virtual environment, of the search path, or of make peers-python.
func Find(ctx context.Context) (string, error) {
	candidates := []string{"python3", "python"}
	if active := os.Getenv("VIRTUAL_ENV"); active != "" {
		candidates = append([]string{filepath.Join(active, "bin", "python")}, candidates...)
	}
	peers := os.Getenv("PSIM_PEERS")
	if cache, err := os.UserCacheDir(); peers == "" && err == nil {
		peers = filepath.Join(cache, "psim", "peers-python")
	}
	candidates = append(candidates, filepath.Join(peers, "bin", "python"))
	if named := os.Getenv(Variable); named != "" {
		candidates = []string{named}
	}
	for _, python := range candidates {
		path, err := exec.LookPath(python)
		if err == nil && exec.CommandContext(ctx, path, "-c", "import torch.distributed.pipelining").Run() == nil {
			return path, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("no Python with PyTorch (2.8 or later) was found; looked at %s; install one, as with "+
		"python3 -m venv torch && torch/bin/pip install torch, and set %s=torch/bin/python",
		strings.Join(candidates, ", "), Variable)
}

// Options say how to run a program.
type Options struct {
	Python        string // as from Find
	Program       []byte // from export.WriteTorch
	Steps, Warmup int
	Rounds        int    // how often every task is timed by itself, between the steps; 0 is never
	Start         *Start // what to begin with; nil for weights and a batch of the program's own
	// Record keeps the gradients of the first step and the last weights, and updates by plain SGD.
	Record bool
	// Progress, which may be nil, gets the program's lines about rounds, such as "round 3 of 8".
	Progress func(line string)
}

// A TaskTime is how long a kind of task takes on a rank.
type TaskTime struct {
	Round       int   // in which it was measured, from 0 on
	Rank, Stage int32 // stage 0 where the work is of no stage
	Kind        string
	Bytes       int64         // of a message or collective
	Time        time.Duration // while the other processes wait
	Beside      time.Duration // while they compute
}

// An Execution is what the program measured.
type Execution struct {
	results.Run
	Alone []TaskTime // by round
	// Records have, by rank, "gradient/NAME" and "weight/NAME" of the parameters on it.
	Records []map[string][]float32
}

// Execute runs the program in a folder of its own, which it removes. When ctx ends, it ends the program's
// processes.
func Execute(ctx context.Context, o Options) (r Execution, err error) {
	folder, err := os.MkdirTemp("", "psim-torch-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "train.py")
	if err = os.WriteFile(file, o.Program, 0o600); err != nil {
		return r, err
	}
	if o.Rounds > 0 {
		o.Warmup = max(1, o.Warmup) // the first step makes what later ones use
	}
	args := []string{file, "--out", folder, "--steps", strconv.Itoa(o.Steps), "--warmup", strconv.Itoa(o.Warmup),
		"--alone", strconv.Itoa(o.Rounds)}
	if o.Start != nil {
		start := filepath.Join(folder, "start.safetensors")
		if err = o.Start.save(start); err != nil {
			return r, err
		}
		args = append(args, "--start", start)
	}
	if o.Record {
		args = append(args, "--record", "--plain-sgd", "--precision", "fp32")
	}
	if err = run(ctx, o, args); err != nil {
		return r, err
	}
	if r.Run, err = results.Load(folder); err != nil {
		return r, err
	}
	if o.Rounds > 0 {
		r.Alone, err = readAlone(filepath.Join(folder, "alone.csv"))
	}
	for rank := 0; err == nil && o.Record && rank < len(r.Result.Ranks); rank++ {
		var record map[string][]float32
		record, err = readTensors(filepath.Join(folder, fmt.Sprintf("record-rank%d.safetensors", rank)))
		r.Records = append(r.Records, record)
	}
	return r, err
}

// run runs Python to its end. Its processes are one group, so that none is left behind.
func run(ctx context.Context, o Options, args []string) error {
	command := exec.CommandContext(ctx, o.Python, args...)
	var output watched
	if output.tell = o.Progress; output.tell == nil {
		output.tell = func(string) {}
	}
	command.Stdout, command.Stderr = &output, &output
	group(command)
	err := command.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("PyTorch's program failed (%w); the end of what it printed:\n%s", err, tail(output.String()))
	}
	return nil
}

// watched keeps what a program prints, and passes on its lines about rounds.
type watched struct {
	bytes.Buffer
	line int // where the last one begins
	tell func(string)
}

// Write keeps text.
func (w *watched) Write(text []byte) (int, error) {
	n, err := w.Buffer.Write(text)
	for {
		rest := w.Bytes()[w.line:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return n, err
		}
		w.line += end + 1
		if line := string(rest[:end]); strings.HasPrefix(line, "round ") {
			w.tell(line)
		}
	}
}

// tail returns the last lines of a text.
func tail(text string) string {
	const most = 40 // what a process says before it aborts comes before Python's account of it
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}

// readAlone reads the times of tasks.
func readAlone(path string) ([]TaskTime, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := parseAlone(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return list, err
}

func parseAlone(r io.Reader) (list []TaskTime, err error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != "round,rank,kind,stage,bytes,ns,beside_ns" {
		return nil, errors.New("its columns must be round, rank, kind, stage, bytes, ns and beside_ns")
	}
	for _, row := range rows[1:] {
		var numbers [6]int64
		for k, field := range []int{0, 1, 3, 4, 5, 6} {
			if row[field] == "" {
				continue
			}
			numbers[k], err = strconv.ParseInt(row[field], 10, 64)
			if err != nil || numbers[k] < 0 || k < 3 && numbers[k] > math.MaxInt32 {
				return nil, fmt.Errorf("%q must be a number from 0 on", row[field])
			}
		}
		list = append(list, TaskTime{
			Round: int(numbers[0]), Rank: int32(numbers[1]), Kind: row[2], Stage: int32(numbers[2]), Bytes: numbers[3],
			Time: time.Duration(numbers[4]), Beside: time.Duration(numbers[5]),
		})
	}
	return list, nil
}
