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

// Solver is the program that Exact calls: the mixed-integer solver of COIN-OR,
// Debian's package coinor-cbc.
const Solver = "cbc"

// ErrNoSolver says that the solver is not installed.
var ErrNoSolver = errors.New("the solver cbc is not installed; on Debian and Ubuntu: apt-get install coinor-cbc")

// Exact is Find, and then proof: where what was found is above the lower bound,
// it lets a mixed-integer solver look for a shorter span, for so long at most.
// The bound is then the solver's, and equal to the span where that is proven to
// be the shortest. It holds for orders in which the microbatches of a stage run
// in turn.
func Exact(ctx context.Context, in Problem, limit time.Duration) (Solution, error) {
	q, err := in.prepare()
	if err != nil {
		return Solution{}, err
	}
	if in.Folded {
		return Solution{}, errors.New("a solver is called for one stage per rank, not for two")
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
		return found, fmt.Errorf("%d stages × %d microbatches leave %d choices of what comes first; a solver is called for at most %d", q.p, q.m, n, mostChoices)
	}
	answer, err := model.solve(ctx, program, limit)
	if err != nil {
		return found, err
	}
	return model.improved(found, answer), nil
}

// answer holds what the solver says, in the model's unit of time.
type answer struct {
	values map[string]float64
	bound  float64
}

// solve writes the model to a file, calls the solver and reads its solution.
func (m *model) solve(ctx context.Context, program string, limit time.Duration) (answer, error) {
	folder, err := os.MkdirTemp("", "psim-")
	if err != nil {
		return answer{}, err
	}
	defer os.RemoveAll(folder)
	in, out := filepath.Join(folder, "order.lp"), filepath.Join(folder, "solution.txt")
	if err := os.WriteFile(in, []byte(m.text()), 0o600); err != nil {
		return answer{}, err
	}
	seconds := strconv.FormatFloat(max(0.1, limit.Seconds()), 'f', 1, 64)
	said, err := exec.CommandContext(ctx, program, in, "sec", seconds, "ratio", "0", "solve", "solution", out).CombinedOutput()
	if ctx.Err() != nil {
		return answer{}, ctx.Err()
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s: %seqs: %s", program, err, lastLine(said))
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return answer{}, fmt.Errorf("%s has written no solution: %s", program, lastLine(said))
	}
	return readAnswer(string(data), string(said))
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

var provenBound = regexp.MustCompile(`(?m)^Lower bound:\s+(\S+)`)

// readAnswer reads a solution file: a line that says how it ended, then one for
// each variable that is not zero. The bound of a search that was stopped stands
// in what the solver printed.
func readAnswer(solution, said string) (answer, error) {
	lines := bufio.NewScanner(strings.NewReader(solution))
	lines.Scan()
	status := lines.Text()
	a := answer{values: map[string]float64{}}
	switch {
	case strings.HasPrefix(status, "Optimal"):
		fields := strings.Fields(status)
		bound, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return a, fmt.Errorf("%s: %q is no status of a solution", Solver, status)
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
			return a, fmt.Errorf("%s: %q is no line of a solution", Solver, lines.Text())
		}
		a.values[fields[1]] = value
	}
	return a, nil
}

// improved returns the better of what was found and what the solver says, whose order
// is run again because its times are rounded.
func (m *model) improved(found Solution, a answer) Solution {
	s := &search{problem: m.problem, evaluator: newEvaluator(m.problem)}
	s.best, s.score = m.found, s.evaluator.run(m.found)
	if seqs := m.spell(a.values); seqs != nil && m.fit(seqs, m.limit) {
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

// spell reads the sequences off the choices: a task stands behind as many as come
// before it. It returns nil where there is no solution.
func (m *model) spell(values map[string]float64) sequences {
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
