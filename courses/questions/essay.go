package questions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"psim/results"
)

// Observed is the answer to a question about graphs.
type Observed struct {
	// Answer holds all sentences.
	Answer    string     `json:"answer"`
	Sentences []Sentence `json:"sentences"`
	// Excuse says what was wrong with measured runs.
	Excuse string       `json:"excuse,omitempty"`
	Graphs []AskedGraph `json:"graphs"`
	Runs   []SourceRun  `json:"runs"`
}

// A Sentence states one thing about the runs, with its numbers.
type Sentence struct {
	Text  string `json:"text"`
	Graph string `json:"graph"` // file of the graph that shows it
	// Part is the part of the question that it answers, such as 1.1a.
	Part string `json:"part,omitempty"`
	// OK says that the runs' numbers are as expected. If they are not, the text says so.
	OK bool `json:"ok"`
}

// An AskedGraph is a figure that the assignment asks for.
type AskedGraph struct {
	File string `json:"file"`
	// Command draws it from predictions; it is empty if the runs were measured.
	Command string `json:"command,omitempty"`
}

// A SourceRun is a run that an answer was read off.
type SourceRun struct {
	Mode     string  `json:"mode"`
	Workers  int     `json:"workers"`
	Kind     string  `json:"kind"` // predicted or measured
	StepTime float64 `json:"step_time_s"`
	Note     string  `json:"note,omitempty"`
}

// The graphs of the assignment, under the names that it gives them.
const (
	ddpSplit           = "graphs/ddp_split_time.png"
	ddpThroughput      = "graphs/ddp_throughput_comparison.png"
	modelTimeline      = "graphs/model_timeline.png"
	modelThroughput    = "graphs/model_throughput_comparison.png"
	fsdpThroughput     = "graphs/fsdp_throughput_comparison.png"
	fsdpUnits          = "graphs/fsdp_autograd_memory.png"
	pipelineTimeline   = "graphs/pipeline_timeline.png"
	pipelineThroughput = "graphs/pipeline_throughput_comparison.png"
)

// essays lists the functions that answer the questions about graphs.
func essays() map[string]func(*essay) error {
	return map[string]func(*essay) error{
		"1.1": discussSplitTime, "1.2": discussDataThroughput,
		"2.1": discussWorkOverTime, "2.2": discussModelScaling,
		"T3.2": discussOneCall, "3.1": discussShardedThroughput,
		"4.1": discussPipelineOverTime, "4.2": discussPipelineScaling,
	}
}

// An essay is an answer while it is written.
type essay struct {
	ctx       context.Context
	runs      []ModeRun // all that are given
	read      []ModeRun // the runs that it is about
	graph     string    // that the next sentences are about
	part      string    // of the question, which the next sentences answer: a, b …
	sentences []Sentence
}

// say adds a sentence on the graph: what is expected, beginning in lower case, and what is
// found. ok says whether that is as expected.
func (e *essay) say(ok bool, expected, found string, args ...any) {
	found = fmt.Sprintf(found, args...) + "."
	text := strings.ToUpper(expected[:1]) + expected[1:] + ": " + found
	if !ok {
		text = "Expected: " + expected + ". Found: " + found
	}
	e.sentences = append(e.sentences, Sentence{Text: text, Graph: e.graph, Part: e.part, OK: ok})
}

// predicted marks numbers that were predicted, if others of the answer were measured.
func (e *essay) predicted(before string) string {
	for _, r := range e.read {
		if r.Result.Kind == results.Measured {
			return before + "predicted"
		}
	}
	return ""
}

// of picks the runs of a mode, and fails if there are fewer than least.
func (e *essay) of(mode string, least int) (series, error) {
	s, err := seriesOf(e.runs, mode, least)
	e.read = append(e.read, s...)
	return s, err
}

// timeline picks the run that the timeline of a mode shows: the one with three workers, or
// else with the most.
func (e *essay) timeline(mode string) (r ModeRun, err error) {
	s, err := seriesOf(e.runs, mode, 1)
	if err != nil {
		return r, err
	}
	r = s.last()
	if i := slices.IndexFunc(s, func(r ModeRun) bool { return r.Workers == 3 }); i >= 0 {
		r = s[i]
	}
	switch e.read = append(e.read, r); {
	case r.Workers == 1:
		return r, fmt.Errorf("a run of mode %s with one worker; two are needed to pass anything on", mode)
	case r.Trace == nil:
		return r, fmt.Errorf("%s=%d has no trace", mode, r.Workers)
	}
	return r, nil
}

// observe answers a question about graphs.
func (q question) observe(ctx context.Context, runs []ModeRun) (QuestionAnswer, error) {
	e := &essay{ctx: ctx, runs: runs}
	if err := q.discuss(e); err != nil {
		return QuestionAnswer{}, err
	}
	for i := range e.sentences {
		if part := &e.sentences[i].Part; *part != "" {
			*part = q.ID + *part
		}
	}
	e.sentences = slices.DeleteFunc(e.sentences, func(s Sentence) bool { return !q.asked(s.Part) })
	o := &Observed{Sentences: e.sentences, Excuse: e.excuse()}
	a := QuestionAnswer{ID: q.ID, Title: q.Title, Question: q.Text, Observed: o, OK: true}
	a.Parts = q.answered(func(_ int, id string) string { return o.texts(id) })
	var texts []string
	for _, s := range o.Sentences {
		texts = append(texts, s.Text)
		a.OK = a.OK && s.OK
		if !slices.ContainsFunc(o.Graphs, func(g AskedGraph) bool { return g.File == s.Graph }) {
			o.Graphs = append(o.Graphs, AskedGraph{s.Graph, command(s.Graph, e.read)})
		}
	}
	o.Answer = strings.TrimSpace(strings.Join(append(texts, o.Excuse), " "))
	for _, r := range e.read {
		o.Runs = append(o.Runs, SourceRun{r.Mode, r.Workers, r.Result.Kind, r.Result.StepTime, r.Note})
	}
	return a, nil
}

// texts joins the sentences that answer a part.
func (o *Observed) texts(part string) string {
	var list []string
	for _, s := range o.Sentences {
		if s.Part == part {
			list = append(list, s.Text)
		}
	}
	return strings.Join(list, " ")
}

// excuse says why measured times may be far from what devices of their own would take.
func (e *essay) excuse() string {
	var shared, disturbed bool
	for _, r := range e.read {
		if m := r.Result.Measurement; m != nil {
			shared, disturbed = shared || !m.TimesComparable, disturbed || m.Disturbed
		}
	}
	var texts []string
	if shared {
		texts = append(texts, "In some of these runs workers shared processor cores, so that they computed "+
			"more slowly the more of them did at once; on devices of their own they would not.")
	}
	if disturbed {
		texts = append(texts, "Something else ran on the machine during some of these runs.")
	}
	return strings.Join(texts, " ")
}

// command draws a graph from predictions; it is empty if a run was measured. Graphs that compare
// two modes draw both.
func command(graph string, read []ModeRun) string {
	if graph == fsdpUnits {
		return commandOfUnits
	}
	kind, name := "throughput", strings.TrimPrefix(graph, "graphs/")
	mode, _, _ := strings.Cut(name, "_")
	switch graph {
	case ddpSplit:
		kind = "split-time"
	case modelTimeline, pipelineTimeline:
		kind = "timeline"
	}
	var words []string
	for _, mode := range append([]string{mode}, map[string][]string{
		fsdpThroughput: {"ddp"}, pipelineThroughput: {"model"},
	}[graph]...) {
		var workers []string
		for _, r := range read {
			if r.Result.Kind == results.Measured {
				return ""
			}
			if r.Mode == mode {
				workers = append(workers, fmt.Sprint(r.Workers))
			}
		}
		words = append(words, mode+"="+strings.Join(workers, ","))
	}
	return fmt.Sprintf("psim plot %s %s --out %s", kind, strings.Join(words, " "), graph)
}

// sources lists the runs: "predicted ddp=1, ddp=2; measured ddp=4 (8 samples)".
func (o *Observed) sources() string {
	var b strings.Builder
	kind, note := "", ""
	for i, r := range o.Runs {
		switch {
		case r.Kind != kind || r.Note != note:
			if i > 0 {
				b.WriteString(closing(note) + "; ")
			}
			kind, note = r.Kind, r.Note
			b.WriteString(kind + " ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s=%d", r.Mode, r.Workers)
	}
	return b.String() + closing(note)
}

func closing(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}
