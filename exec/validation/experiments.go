package validation

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/nearest"
)

// An experiment is one step that is predicted and run.
type experiment struct {
	model, kind  string // an example, and how its step is spread
	microbatches int
	processes    int  // 0 is this one alone
	mpi          bool // mpirun starts the processes
	sets         []string
}

// models lists the networks of the report.
func models() []string { return []string{"exec", "exec-mlp"} }

// Kinds lists the ways to spread a step, as reports name them.
func Kinds() []string {
	return []string{"model-parallel", "gpipe", "1f1b", "zbv", "ddp", "fsdp", "fsdp-gloo", "processes"}
}

// experiments lists all experiments: the three schedules with three sizes of pipeline, the
// others with one or two, and over processes one of each family, also over MPI if there is one.
func experiments() (list []experiment) {
	for _, model := range models() {
		for _, m := range []int{2, 4, 8} {
			for _, kind := range Kinds()[:3] {
				list = append(list, experiment{model: model, kind: kind, microbatches: m})
			}
		}
		for _, m := range []int{4, 8} {
			list = append(list, experiment{model: model, kind: "zbv", microbatches: m})
		}
		for _, m := range []int{1, 2} {
			list = append(list, experiment{model: model, kind: "ddp", microbatches: m})
		}
		for _, kind := range []string{"fsdp", "fsdp-gloo"} {
			list = append(list, experiment{model: model, kind: kind, microbatches: 1})
		}
		for _, e := range []experiment{
			{kind: "1f1b", microbatches: 4}, {kind: "ddp", microbatches: 1}, {kind: "fsdp", microbatches: 1},
		} {
			e.model, e.processes = model, 2
			if list = append(list, e); overMPI() {
				e.mpi = true
				list = append(list, e)
			}
		}
	}
	for i := range list {
		name, gloo := strings.CutSuffix(list[i].kind, "-gloo")
		list[i].sets = []string{"schedule.name=" + name, fmt.Sprint("schedule.microbatches=", list[i].microbatches)}
		if gloo {
			list[i].sets = append(list[i].sets, "parallel.collectives=gloo")
		}
	}
	return list
}

// Names lists what selects experiments: examples and kinds.
func Names() []string { return append(models(), Kinds()...) }

// choose returns the experiments of some examples and kinds; without names, all.
func choose(names []string) (list []experiment, err error) {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("unknown experiments %q; use %s%s",
				name, strings.Join(Names(), ", "), nearest.Suggest(name, Names()))
		}
	}
	named := func(of []string, is func(name string) bool) bool {
		isOne := func(name string) bool { return slices.Contains(of, name) }
		return !slices.ContainsFunc(names, isOne) || slices.ContainsFunc(names, is)
	}
	for _, e := range experiments() {
		ofModel := named(models(), func(name string) bool { return name == e.model })
		ofKind := named(Kinds(), func(name string) bool {
			return name == e.kind && e.processes == 0 || name == "processes" && e.processes > 0
		})
		if ofModel && ofKind {
			list = append(list, e)
		}
	}
	return list, nil
}
