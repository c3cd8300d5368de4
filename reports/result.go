package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"psim/internal/units"
	"psim/schedules"
)

// The kinds of result.
const (
	Predicted = "predicted"
	Measured  = "measured"
)

// A Result is what result.json holds: the metrics of one step, predicted or
// measured. Times are in seconds and memory in bytes.
type Result struct {
	Kind          string `json:"kind"` // Predicted or Measured
	Name          string `json:"name"`
	Schedule      string `json:"schedule"`
	Stages        int    `json:"stages"` // pipeline ranks of one replica
	VirtualStages int    `json:"virtual_stages"`
	Microbatches  int    `json:"microbatches"`
	DataParallel  int    `json:"data_parallel"`
	// TensorParallel is the size of a tensor-parallel group, which is one rank.
	TensorParallel int          `json:"tensor_parallel"`
	StepTime       float64      `json:"step_time_s"` // with the optimizer
	Makespan       float64      `json:"makespan_s"`  // without it
	Bubble         Bubble       `json:"bubble"`
	Throughput     Throughput   `json:"throughput"`
	Ranks          []RankResult `json:"ranks"`
	FitsMemory     bool         `json:"fits_memory"`
	Tasks          int          `json:"tasks"` // messages included
	// CriticalPath is what the step time is made of; nil where it is not known.
	CriticalPath *CriticalPath `json:"critical_path,omitempty"`
	// Steps lists the times of the measured steps.
	Steps []float64 `json:"steps,omitempty"`
	// Build and Simulation are how long psim itself took. They differ from
	// run to run, so they are nil in every file.
	Build      *float64 `json:"build_s,omitempty"`
	Simulation *float64 `json:"simulation_s,omitempty"`
	Warnings   []string `json:"warnings"`
}

// Bubble is the idle share of the ranks' time, from 0 to 1: of the makespan,
// and of the longest of the ranks' own spans.
type Bubble struct {
	Makespan float64 `json:"makespan"`
	Span     float64 `json:"span"`
}

// Throughput is the work of a step divided by the step time. Tokens are 0 for
// networks that have none.
type Throughput struct {
	Samples float64 `json:"samples_per_s"`
	Tokens  float64 `json:"tokens_per_s"`
}

// A RankResult is one rank's share of a Result. Compute, ExposedCommunication,
// Optimizer and Idle add up to the step time.
type RankResult struct {
	Rank                 int     `json:"rank"`
	Compute              float64 `json:"compute_s"`
	Communication        float64 `json:"communication_s"`
	ExposedCommunication float64 `json:"exposed_communication_s"`
	Optimizer            float64 `json:"optimizer_s"`
	Idle                 float64 `json:"idle_s"`
	PeakMemory           int64   `json:"peak_memory_bytes"`
	PersistentMemory     int64   `json:"persistent_memory_bytes"`
	// MemoryCapacity is 0 where no limit is known.
	MemoryCapacity int64 `json:"memory_capacity_bytes,omitempty"`
	PeakInFlight   int   `json:"peak_in_flight"`
	SentBytes      int64 `json:"sent_bytes"`
}

// Info is what a Result says that its trace does not.
type Info struct {
	Name, Schedule               string
	Stages, VirtualStages        int
	Microbatches                 int
	DataParallel, TensorParallel int
	Samples, Tokens              int64 // per step, over all replicas
	// Capacity is the memory of every rank in bytes; nil is unlimited. A peak
	// equal to the capacity fits.
	Capacity []int64
	Warnings []string
}

// NewResult puts the metrics of a trace in the form of result.json. A rank
// whose peak exceeds its capacity adds a warning.
func NewResult(kind string, t *schedules.Trace, s schedules.Summary, info Info) Result {
	r := Result{
		Kind: kind, Name: info.Name, Schedule: info.Schedule,
		Stages: info.Stages, VirtualStages: info.VirtualStages, Microbatches: info.Microbatches,
		DataParallel: info.DataParallel, TensorParallel: info.TensorParallel,
		StepTime: s.StepTime.Seconds(), Makespan: s.Makespan.Seconds(),
		Bubble:     Bubble{Makespan: s.Bubble.Makespan, Span: s.Bubble.Span},
		Throughput: Throughput{Samples: perSecond(info.Samples, s.StepTime), Tokens: perSecond(info.Tokens, s.StepTime)},
		Ranks:      make([]RankResult, len(s.Ranks)),
		Tasks:      len(t.Graph.Tasks),
		Warnings:   append([]string{}, info.Warnings...),
	}
	for i, rank := range s.Ranks {
		r.Ranks[i] = rankResult(rank)
	}
	r.checkMemory(info.Capacity)
	return r
}

func rankResult(s schedules.RankSummary) RankResult {
	return RankResult{
		Rank: s.Rank, Compute: s.Compute.Seconds(),
		Communication: s.Communication.Seconds(), ExposedCommunication: s.ExposedCommunication.Seconds(),
		Optimizer: s.Optimizer.Seconds(), Idle: s.Idle.Seconds(),
		PeakMemory: s.PeakMemory, PersistentMemory: s.PersistentMemory,
		PeakInFlight: s.PeakInFlight, SentBytes: s.SentBytes,
	}
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// checkMemory sets FitsMemory and the capacities, and warns about the rank that
// lacks the most.
func (r *Result) checkMemory(capacity []int64) {
	short, worst, lack := 0, 0, int64(0)
	for i := range min(len(r.Ranks), len(capacity)) {
		r.Ranks[i].MemoryCapacity = capacity[i]
		over := r.Ranks[i].PeakMemory - capacity[i]
		if over > 0 {
			short++
		}
		if over > lack {
			worst, lack = i, over
		}
	}
	r.FitsMemory = short == 0
	if short == 0 {
		return
	}
	warning := fmt.Sprintf("rank %d needs %s of memory and has %s", worst, units.FormatBytes(r.Ranks[worst].PeakMemory), units.FormatBytes(capacity[worst]))
	if short > 1 {
		warning += fmt.Sprintf("; %d ranks need more than they have", short)
	}
	r.Warnings = append(r.Warnings, warning)
}

// WriteJSON writes the result as an indented JSON object.
func (r Result) WriteJSON(w io.Writer) error {
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if r.Ranks == nil {
		r.Ranks = []RankResult{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// ReadResult reads a result.json. Fields that it does not know are skipped,
// because a measured result has more of them.
func ReadResult(r io.Reader) (Result, error) {
	const limit = 1 << 30
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return Result{}, err
	}
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(data) > limit:
		return Result{}, errors.New("larger than 1 GiB; a result.json is needed")
	case len(trimmed) == 0:
		return Result{}, errors.New("the file is empty; a result.json is needed")
	case trimmed[0] != '{' || bytes.IndexByte(data, 0) >= 0:
		return Result{}, errors.New("not a JSON object; a result.json is needed, as psim run --out DIR writes it")
	}
	var result Result
	if err := json.Unmarshal(data, &result); err != nil {
		return Result{}, jsonError(data, err)
	}
	return result, result.validate()
}

// jsonError adds the place to an error of encoding/json.
func jsonError(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var offset int64
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
		err = fmt.Errorf("%s is a JSON %s; it must fit %s", kind.Field, kind.Value, kind.Type)
	default:
		return err
	}
	before := string(data[:min(int(offset), len(data))])
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %s", line, max(1, column), strings.TrimPrefix(err.Error(), "json: "))
}

// validate reports what keeps a JSON object from being a result.
func (r Result) validate() error {
	switch {
	case r.Kind != Predicted && r.Kind != Measured:
		return fmt.Errorf("kind is %q; a result has kind %q or %q", r.Kind, Predicted, Measured)
	case r.StepTime < 0 || r.Makespan < 0:
		return errors.New("step_time_s or makespan_s is negative")
	case len(r.Ranks) == 0:
		return errors.New("ranks is empty or missing; a result has one entry per rank")
	}
	return nil
}
