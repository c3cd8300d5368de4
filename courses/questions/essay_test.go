package questions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/results"
	"psim/schedules/graph"
)

// predictions predicts all runs of the course, once.
var predictions = sync.OnceValues(func() ([]ModeRun, error) { return predictAll(context.Background(), catalog()) })

// course returns copies of all runs of the course.
func course(t *testing.T) []ModeRun {
	t.Helper()
	shared, err := predictions()
	require.NoError(t, err)
	runs := slices.Clone(shared)
	for i := range runs {
		r := &runs[i]
		r.Result.Ranks, r.Result.Groups = slices.Clone(r.Result.Ranks), slices.Clone(r.Result.Groups)
		r.Trace = ordertest.Measured(r.Trace)
	}
	return runs
}

// Each sentence says what is expected, and what the runs show.
func ExampleAnswers() {
	answers, err := Answers(context.Background(), nil, "2.2")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range answers[0].Sentences[:2] {
		fmt.Println(s.OK, s.Text)
	}
	fmt.Println(answers[0].Graphs[0].Command)
	// Output:
	// true Throughput stays the same within a tenth, whatever the number of workers: 2.37, 2.37 and 2.37 samples per second on 1, 2 and 3 workers.
	// true Of W workers one computes at a time, so that each does so for at most 1/W of the step on average: 99.7 %, 49.9 % and 33.2 % of it.
	// psim plot throughput model=1,2,3 --out graphs/model_throughput_comparison.png
}

// pick finds a run, such as ddp=2.
func pick(runs []ModeRun, word string) *ModeRun {
	i := slices.IndexFunc(runs, func(r ModeRun) bool { return fmt.Sprintf("%s=%d", r.Mode, r.Workers) == word })
	return &runs[i]
}

// everyRank changes all ranks of a run.
func everyRank(word string, change func(*results.RankResult)) func([]ModeRun) {
	return func(runs []ModeRun) {
		r := pick(runs, word)
		for i := range r.Result.Ranks {
			change(&r.Result.Ranks[i])
		}
	}
}

func result(word string, change func(*results.Result)) func([]ModeRun) {
	return func(runs []ModeRun) { change(&pick(runs, word).Result) }
}

// spans changes the times of a run's computation.
func spans(word string, change func(*graph.Task, *graph.Span)) func([]ModeRun) {
	return func(runs []ModeRun) {
		trace := pick(runs, word).Trace
		for i, task := range trace.Graph.Tasks() {
			if task.Kind.Compute() {
				change(&task, &trace.Spans[i])
			}
		}
	}
}

// untruths lists, for every sentence of every answer, changes that make it untrue.
var untruths = map[string][][]func([]ModeRun){
	"1.1": {
		{everyRank("ddp=4", func(r *results.RankResult) { r.Compute *= 1.2 })},
		{everyRank("ddp=2", func(r *results.RankResult) { r.Optimizer *= 0.8 })},
		{
			everyRank("ddp=4", func(r *results.RankResult) { r.SentBytes += r.SentBytes / 20 }),
			everyRank("ddp=4", func(r *results.RankResult) { r.ExposedCommunication = 1 }),
		},
		{result("ddp=4", func(r *results.Result) { r.StepTime *= 2 })},
		{everyRank("ddp=4", func(r *results.RankResult) { r.ExposedCommunication *= 1.3 })},
	},
	"1.2": {
		{
			result("ddp=4", func(r *results.Result) { r.Throughput.Samples = 4 }),
			result("ddp=4", func(r *results.Result) { r.Throughput.Samples = 11 }),
		},
		{
			everyRank("ddp=4", func(r *results.RankResult) { r.Compute += 3 }),
			everyRank("ddp=4", func(r *results.RankResult) { r.Optimizer += 3 }),
			everyRank("ddp=4", func(r *results.RankResult) { r.Idle += 3 }),
		},
		{everyRank("ddp=4", func(r *results.RankResult) { r.SentBytes *= 2 })},
	},
	"2.1": {
		{spans("model=3", func(task *graph.Task, s *graph.Span) { s.Start -= s.Duration() / 10 })},
		{spans("model=3", func(task *graph.Task, s *graph.Span) { s.Start, s.End = -s.End, -s.Start })},
		{everyRank("model=3", func(r *results.RankResult) { r.Compute = 5 })},
		{result("model=3", func(r *results.Result) { r.Bubble.Makespan = 0.6 })},
		{spans("model=3", func(task *graph.Task, s *graph.Span) {
			if task.Kind == graph.Backward {
				s.End = s.Start + s.Duration()/5
			}
		})},
		{everyRank("model=3", func(r *results.RankResult) { r.Communication = 1 })},
	},
	"2.2": {
		{result("model=3", func(r *results.Result) { r.Throughput.Samples *= 1.2 })},
		{everyRank("model=3", func(r *results.RankResult) { r.Compute *= 1.1 })},
		{everyRank("model=3", func(r *results.RankResult) { r.PeakMemory = 1e9 })},
	},
	"3.1": {
		{
			result("fsdp=4", func(r *results.Result) { r.Throughput.Samples = 11 }),
			result("fsdp=4", func(r *results.Result) { r.Throughput.Samples = 3 }),
		},
		{result("ddp=4", func(r *results.Result) { r.Throughput.Samples = 5 })},
		{
			everyRank("fsdp=4", func(r *results.RankResult) { r.ExposedCommunication = 1 }),
			everyRank("fsdp=4", func(r *results.RankResult) { r.Compute /= 2 }),
		},
		{
			everyRank("ddp=4", func(r *results.RankResult) { r.SentBytes += r.SentBytes / 20 }),
			result("fsdp=4", func(r *results.Result) { r.Groups[1].Collective = "reduce-scatter" }),
		},
		{result("fsdp=4", func(r *results.Result) { r.Groups[0].Time = 1 })},
		{
			everyRank("fsdp=4", func(r *results.RankResult) { r.PersistentMemory = 1e9 }),
			everyRank("ddp=4", func(r *results.RankResult) { r.PersistentMemory /= 2 }),
		},
	},
	"4.1": {
		{func(runs []ModeRun) { pick(runs, "pipeline=3").Trace = pick(runs, "model=3").Trace }},
		{
			everyRank("pipeline=3", func(r *results.RankResult) { r.PeakInFlight = 1 }),
			func(runs []ModeRun) { *pick(runs, "pipeline=3") = oneF1B() },
		},
		{everyRank("pipeline=3", func(r *results.RankResult) { r.Compute = 5 })},
		{result("pipeline=3", func(r *results.Result) { r.Bubble.Makespan = 0.4 })},
		{result("pipeline=3", func(r *results.Result) { r.Bubble.Makespan = 0.7 })},
	},
	"4.2": {
		{
			result("pipeline=3", func(r *results.Result) { r.Throughput.Samples = 3.7 }),
			result("pipeline=2", func(r *results.Result) { r.Throughput.Samples = 4.9; r.Throughput.Samples += 1 }),
		},
		{
			everyRank("pipeline=3", func(r *results.RankResult) { r.Compute = 5 }),
			result("pipeline=3", func(r *results.Result) { r.StepTime = 10 }),
		},
		{
			everyRank("pipeline=3", func(r *results.RankResult) { r.Compute /= 4 }),
			func(runs []ModeRun) { // and faster than model parallelism
				everyRank("pipeline=3", func(r *results.RankResult) { r.Compute /= 4 })(runs)
				result("model=3", func(r *results.Result) { r.Throughput.Samples = 1 })(runs)
			},
		},
		{
			everyRank("model=3", func(r *results.RankResult) { r.SentBytes /= 2 }),
			everyRank("pipeline=3", func(r *results.RankResult) { r.Communication = 2 }),
		},
	},
}

// oneF1B returns a pipeline in another order.
func oneF1B() ModeRun {
	r, err := predictMode(context.Background(), "pipeline", 3, "schedule.name=1f1b")
	if err != nil {
		panic(err)
	}
	return r
}

func TestEverySentenceCanBeUntrue(t *testing.T) {
	for _, q := range catalog() {
		if q.discuss == nil {
			continue
		}
		for i, changes := range untruths[q.ID] {
			for k, change := range changes {
				runs := course(t)
				change(runs)
				a, err := q.observe(t.Context(), runs)
				require.NoError(t, err)
				require.False(t, a.OK, "%s, %d, %d", q.ID, i, k)
				require.False(t, a.Sentences[i].OK, "%s, %d, %d: %s", q.ID, i, k, a.Sentences[i].Text)
				require.Regexp(t, `^Expected: .*\. Found: .*\.$`, a.Sentences[i].Text)
				require.Contains(t, a.Answer, a.Sentences[i].Text)
				require.Equal(t, Sheet{Questions: []QuestionAnswer{a}, Failed: 1}, NewSheet([]QuestionAnswer{a}))
			}
		}
		a, err := q.observe(t.Context(), course(t))
		require.NoError(t, err)
		require.True(t, a.OK, q.ID)
		tested := len(untruths[q.ID])
		if q.ID == "1.1" {
			tested += 2 // of GPUs, below
		}
		if q.ID == "3.1" {
			tested += 2 // of the peak and of the simplified FSDP, below
		}
		if q.ID == "T3.2" {
			tested += 4 // of units, below
		}
		require.Len(t, a.Sentences, tested, q.ID)
	}
}

func TestFasterDevicesMayNotHelp(t *testing.T) {
	runs := course(t)
	var e essay
	slow, fast := *pick(runs, "ddp=2"), *pick(runs, "ddp=4")
	e.weigh(slow, fast)
	require.False(t, e.sentences[0].OK, "communication grows")
	require.True(t, e.sentences[1].OK)
	e.weigh(fast, slow)
	require.False(t, e.sentences[3].OK, "communication shrinks more")
}

func TestSavingMemoryMayFail(t *testing.T) {
	runs := course(t)
	var e essay
	ddp, fsdp := *pick(runs, "ddp=4"), *pick(runs, "fsdp=4")
	e.saves(fsdp, fsdp, ddp)
	require.False(t, e.sentences[0].OK, "the simplified form saves as well")
	e.saves(ddp, ddp, ddp)
	require.False(t, e.sentences[1].OK, "nor does the full one")
}

// FSDP's peak may be higher than DDP's or lower, but falls by less than what it keeps.
func TestPeaksMayFall(t *testing.T) {
	runs := course(t)
	var e essay
	ddp, fsdp := *pick(runs, "ddp=4"), *pick(runs, "fsdp=4")
	e.peaks(fsdp, ddp)
	require.True(t, e.sentences[0].OK)
	require.Contains(t, e.sentences[0].Text, "higher than DDP's")
	at := func(peak int64) ModeRun {
		r := fsdp
		r.Result.Ranks = slices.Clone(r.Result.Ranks)
		for i := range r.Result.Ranks {
			r.Result.Ranks[i].PeakMemory = peak
		}
		return r
	}
	e.peaks(at(ddp.Result.PeakMemory()-1), ddp)
	require.True(t, e.sentences[1].OK)
	require.Contains(t, e.sentences[1].Text, "lower than DDP's by less")
	e.peaks(at(ddp.Result.PeakMemory()/4), ddp)
	require.False(t, e.sentences[2].OK, "it falls by more than what is kept")
	e.peaks(ddp, ddp)
	require.False(t, e.sentences[3].OK, "nothing is gathered")
}

// One call of autograd might cost no memory, more or fewer bytes, and be of a network of equal
// layers.
func TestUnitsMayNotMatter(t *testing.T) {
	each, err := predictMode(t.Context(), "fsdp", 4)
	require.NoError(t, err)
	one, err := predictMode(t.Context(), "fsdp", 4, "parallel.gather_unit=stage")
	require.NoError(t, err)
	told := func(each, one ModeRun) (ok []bool) {
		var e essay
		e.weighUnits(each, one)
		for _, s := range e.sentences {
			ok = append(ok, s.OK)
		}
		return ok
	}
	require.Equal(t, []bool{true, true, true, true}, told(each, one))
	require.Equal(t, []bool{false, false, true, true}, told(each, each))
	require.Equal(t, []bool{false, false, true, true}, told(one, one))
	changed := func(change func(*results.RankResult)) ModeRun {
		r := each
		r.Result.Ranks = slices.Clone(r.Result.Ranks)
		for i := range r.Result.Ranks {
			memory := *r.Result.Ranks[i].Memory
			r.Result.Ranks[i].Memory = &memory
			change(&r.Result.Ranks[i])
		}
		return r
	}
	require.Equal(t, []bool{true, true, false, true}, told(changed(func(r *results.RankResult) { r.SentBytes *= 2 }), one))
	require.Equal(t, []bool{true, true, true, false}, told(changed(func(r *results.RankResult) { r.Memory.Parameters /= 2 }), one))
}

// Answers from measured runs have no command that draws the graph, and say what disturbed the
// runs.
func TestMeasuredRuns(t *testing.T) {
	runs := course(t)
	for i := range runs {
		runs[i].Result.Kind, runs[i].Note = results.Measured, "16 samples each"
		runs[i].Result.Measurement = &results.Measurement{Disturbed: true}
	}
	all, err := Answers(t.Context(), runs, "1.2", "2.1")
	require.NoError(t, err)
	for _, a := range all {
		require.True(t, a.OK)
		require.Empty(t, a.Graphs[0].Command)
		require.Contains(t, a.Answer, "workers shared processor cores")
		require.Contains(t, a.Answer, "Something else ran on the machine")
	}
	require.Equal(t, "measured ddp=1, ddp=2, ddp=4 (16 samples each)", all[0].sources())
	require.Equal(t, "psim plot timeline model=3 --out graphs/model_timeline.png", answers(t, "2.1")[0].Graphs[0].Command)
}

func TestMissingRuns(t *testing.T) {
	runs := course(t)
	for _, c := range []struct {
		id, want string
		runs     []ModeRun
	}{
		{"1.1", "question 1.1: 0 runs of mode ddp; at least 2 are needed", []ModeRun{}},
		{"1.2", "question 1.2: 1 run of mode ddp; at least 2 are needed", runs[:1]},
		{"1.2", "question 1.2: two runs of ddp=2; give one", append(slices.Clone(runs), *pick(runs, "ddp=2"))},
		{"2.1", "question 2.1: a run of mode model with one worker; two are needed to pass anything on", []ModeRun{*pick(runs, "model=1")}},
		{"2.1", "question 2.1: model=3 has no trace", []ModeRun{{Mode: "model", Workers: 3, Run: results.Run{Result: runs[0].Result}}}},
		{"3.1", "question 3.1: no runs of fsdp and ddp on as many workers, of at least two", slices.DeleteFunc(slices.Clone(runs), func(r ModeRun) bool {
			return r.Mode == "ddp" && r.Workers == 4 || r.Mode == "fsdp" && r.Workers == 2
		})},
		{"4.1", "question 4.1: no run of model=3, to which pipeline=3 is compared", slices.DeleteFunc(slices.Clone(runs), func(r ModeRun) bool { return r.Mode == "model" && r.Workers == 3 })},
	} {
		_, err := Answers(t.Context(), c.runs, c.id)
		require.EqualError(t, err, c.want)
	}
}

// Answers can be read off runs on other numbers of workers than the course's.
func TestOtherWorkers(t *testing.T) {
	var runs []ModeRun
	for _, word := range []string{"ddp=8", "ddp=2", "fsdp=8", "fsdp=2", "model=4", "model=2", "pipeline=2", "pipeline=4"} {
		mode, workers, _ := strings.Cut(word, "=")
		r, err := predictMode(t.Context(), mode, int(workers[0]-'0'))
		require.NoError(t, err)
		runs = append(runs, r)
	}
	all, err := Answers(t.Context(), runs, "1.1", "1.2", "2.1", "2.2", "3.1", "4.1", "4.2")
	require.NoError(t, err)
	for _, a := range all {
		require.True(t, a.OK, "%s: %s", a.ID, a.Answer)
	}
	require.Contains(t, all[0].Answer, "on 2 and 8 workers")
	require.Equal(t, "predicted model=4", all[2].sources())
}

func TestPerSecond(t *testing.T) {
	for x, want := range map[float64]string{0: "0.00", 3.626: "3.63", 10.049: "10.0", 123.4: "123", 12345: "12345"} {
		require.Equal(t, want, perSecond(x))
	}
}
