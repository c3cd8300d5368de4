package results

import (
	"maps"
	"slices"
	"strings"
	"time"

	"psim/schedules/graph"
)

// An Explanation splits the time of a step by class of work, and lists the settings that
// price each class.
type Explanation struct {
	// Seconds by class of work: products (with parameters), attention (fused, or its two
	// products), between (operations bound by memory: norms, functions, softmax, loss), tensor
	// (exchanges in tensor-parallel groups), context (exchanges between the parts of
	// sequences), launches (work of the host, starts of kernels), measured (layers that were
	// measured as a whole), the times that [times] gives (forward, backward, backward_input,
	// backward_weight), pipeline (messages), data_*, expert_*, expert-data_*, tied_*
	// (collectives), host_copies (between devices and hosts), averaging, optimizer, and waiting.
	// Every moment of a rank counts once: as computation, or else as update, communication or
	// launch, or else as waiting. The seconds are means over all ranks and add up to the step time.
	ByClass map[string]float64 `json:"by_class_s"`
	// The same along the chain of tasks that determines the step time. They add up to it, too.
	CriticalPath map[string]float64 `json:"critical_path_s"`
	// Hidden communication by class: it runs while by_class_s counts something else. The
	// seconds are means over the ranks.
	Beside   map[string]float64 `json:"beside_s,omitempty"`
	Settings []Pricing          `json:"settings"` // the settings that price the classes
	// Single changes and their predictions, the shortest step first. Changes without an effect
	// are left out.
	WhatIf []WhatIf `json:"what_if"`
	// Changes that what_if leaves out because their prices have another source: layers that
	// they need were not measured while those of the configuration were, or the reverse.
	Unmeasured [][]string `json:"what_if_unmeasured,omitempty"`
}

// A Pricing is a setting that prices some classes.
type Pricing struct {
	Key     string   `json:"key"`     // key of the setting, as in psim help config
	Value   string   `json:"value"`   // as in TOML, without quotes
	From    string   `json:"from"`    // given, stack NAME, kernels NAME, device NAME, link NAME, file NAME or default
	Classes []string `json:"classes"` // the classes that the setting prices
}

// The classes of exchanges within a rank.
const (
	TensorClass  = "tensor"
	ContextClass = "context"
)

// classOrder lists the classes in the order of tables. The empty string stands for all others,
// the collectives, which are sorted by name.
var classOrder = [...]string{
	"products", "attention", "between", "measured", "forward", "backward", "backward_input", "backward_weight",
	TensorClass, ContextClass, graph.Launches, "pipeline", graph.HostCopies, "",
	graph.Averaging, graph.Updating, graph.Waiting,
}

// SortedClasses returns the classes of a map in the order of tables.
func SortedClasses[V any](by map[string]V) []string {
	place := func(class string) int {
		if i := slices.Index(classOrder[:], class); i >= 0 {
			return i
		}
		return slices.Index(classOrder[:], "")
	}
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// NewExplanation splits the time of a trace, given its critical path and the shares of its
// computing tasks.
func NewExplanation(t *graph.Trace, path []int32, made func(*graph.Task) []graph.Share) *Explanation {
	all, chain := newAccount(t, made), newAccount(t, made)
	all.ranks()
	walk(t, path, func(i int32, what stretchOfPath, part time.Duration) {
		switch task := t.Graph.Class(i); {
		case what == running:
			chain.task(i, part)
		case what == launching:
			chain.time[graph.Launches] += part
		case task.Kind.Compute():
			chain.time[graph.Waiting] += part
		default: // the latency of a message
			chain.task(i, part)
		}
	})
	n, copies := t.Graph.Ranks(), t.Graph.Replicas()
	return &Explanation{
		ByClass: mean(all.time, copies, n), CriticalPath: mean(chain.time, 1, 1), Beside: mean(all.hidden, copies, n),
	}
}

// Classes lists the classes that take time.
func (e *Explanation) Classes() []string {
	all := map[string]float64{}
	for _, by := range []map[string]float64{e.ByClass, e.CriticalPath, e.Beside} {
		maps.Copy(all, by)
	}
	return SortedClasses(all)
}
