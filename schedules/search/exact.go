package search

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Solver is the program that Exact calls: COIN-OR's mixed-integer solver, in Debian's
// package coinor-cbc.
const Solver = "cbc"

// ErrNoSolver says that the solver is not installed.
var ErrNoSolver = errors.New("the solver cbc is not installed; on Debian and Ubuntu: apt-get install coinor-cbc")

// Exact is Find with a proof: if the span that Find reaches is above the lower bound, a
// mixed-integer solver looks for a shorter one, for at most the time limit. The bound is
// then the solver's, and equals the span if that is proven to be the shortest. The proof
// covers orders in which the microbatches of a stage run in turn.
func Exact(ctx context.Context, in Problem, limit time.Duration) (Solution, error) {
	q, err := in.prepare()
	if err != nil {
		return Solution{}, err
	}
	if in.Folded {
		return Solution{}, errors.New("the solver takes one stage per rank, not two")
	}
	found, err := Find(ctx, in)
	if err != nil || found.Span <= found.LowerBound {
		return found, err
	}
	program, err := exec.LookPath(Solver)
	if err != nil {
		return found, ErrNoSolver
	}
	model := newModel(q, found)
	const mostChoices = 20_000
	if n := model.choices(); n > mostChoices {
		return found, fmt.Errorf("%d stages × %d microbatches leave %d pairs of passes to put in order; "+
			"the solver is called for at most %d", q.p, q.m, n, mostChoices)
	}
	answer, err := model.solve(ctx, program, limit)
	if err != nil {
		return found, err
	}
	return model.betterOf(found, answer), nil
}

// solverAnswer holds the solver's solution, in the model's unit of time.
type solverAnswer struct {
	values map[string]float64
	bound  float64
}

// solve writes the model to a file, calls the solver and reads its solution.
func (m *model) solve(ctx context.Context, program string, limit time.Duration) (solverAnswer, error) {
	folder, err := os.MkdirTemp("", "psim-")
	if err != nil {
		return solverAnswer{}, err
	}
	defer os.RemoveAll(folder)
	in, out := filepath.Join(folder, "order.lp"), filepath.Join(folder, "solution.txt")
	if err := os.WriteFile(in, []byte(m.text()), 0o600); err != nil {
		return solverAnswer{}, err
	}
	seconds := strconv.FormatFloat(max(0.1, limit.Seconds()), 'f', 1, 64)
	solver := exec.CommandContext(ctx, program, in, "sec", seconds, "ratio", "0", "solve", "solution", out)
	said, err := solver.CombinedOutput()
	if ctx.Err() != nil {
		return solverAnswer{}, ctx.Err()
	}
	if err != nil {
		return solverAnswer{}, fmt.Errorf("%s: %w: %s", program, err, lastLine(said))
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return solverAnswer{}, fmt.Errorf("%s wrote no solution: %s", program, lastLine(said))
	}
	return readAnswer(string(data), string(said))
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

var provenBound = regexp.MustCompile(`(?m)^Lower bound:\s+(\S+)`)

// readAnswer reads a solution file: a status line, then a line for each variable that is
// not zero. If the solver was stopped, the bound is in its output.
func readAnswer(solution, said string) (solverAnswer, error) {
	lines := bufio.NewScanner(strings.NewReader(solution))
	lines.Scan()
	status := lines.Text()
	a := solverAnswer{values: map[string]float64{}}
	switch {
	case strings.HasPrefix(status, "Optimal"):
		fields := strings.Fields(status)
		bound, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return a, fmt.Errorf("%s: cannot read the status %q", Solver, status)
		}
		a.bound = bound
	case strings.HasPrefix(status, "Stopped on time"):
		if m := provenBound.FindStringSubmatch(said); m != nil {
			a.bound, _ = strconv.ParseFloat(m[1], 64) // 0 proves nothing
		}
		if strings.Contains(status, "no integer solution") {
			return a, nil
		}
	default:
		return a, fmt.Errorf("%s: %s", Solver, status)
	}
	for lines.Scan() {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "**"))
		if len(fields) < 3 {
			continue
		}
		value, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return a, fmt.Errorf("%s: cannot read the line %q", Solver, lines.Text())
		}
		a.values[fields[1]] = value
	}
	return a, nil
}

// betterOf returns the better of two solutions: the one that Find has found, and the
// solver's. The solver's times are rounded, so its order is run again.
func (m *model) betterOf(found Solution, a solverAnswer) Solution {
	s := &search{problem: m.problem, evaluator: newEvaluator(m.problem)}
	s.best, s.score = m.foundOrder, s.evaluator.run(m.foundOrder)
	if seqs := m.readSequences(a.values); seqs != nil && m.allLegal(seqs, m.limit) {
		s.offer(seqs)
	}
	const rounding = 1e-4
	bound := int64(a.bound - rounding)
	if float64(bound) < a.bound-rounding { // spans are whole
		bound++
	}
	s.bound = max(int64(found.LowerBound), min(bound*m.unit, s.score.span))
	return s.result()
}

// readSequences makes sequences of the binary variables: the position of a task is the
// number of tasks before it. It returns nil if the solver has no solution.
func (m *model) readSequences(values map[string]float64) sequences {
	if len(values) == 0 {
		return nil
	}
	seqs := make(sequences, m.p)
	for r := range seqs {
		tasks := m.tasks(r)
		place := map[task]int{}
		for _, a := range tasks {
			for _, b := range tasks {
				if name, fixed := m.before(b, a); fixed == yes || name != "" && values[name] > 0.5 {
					place[a]++
				} else if back, _ := m.before(a, b); name == "" && back != "" && values[back] < 0.5 {
					place[a]++
				}
			}
		}
		slices.SortStableFunc(tasks, func(a, b task) int { return place[a] - place[b] })
		for _, t := range tasks {
			seqs[r] = append(seqs[r], op(t.k))
		}
	}
	return seqs
}
