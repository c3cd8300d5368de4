package courses

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/courses/questions"
	"psim/exec/backend"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
	"psim/internal/golden"
	"psim/results"
)

// Devices share one core, so that psim does not probe how steady the machine is: no test
// reads a time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

func options(budget time.Duration) Options {
	return Options{Measure: true, Budget: budget, Options: session.Options{Seed: 1390, Measure: measure.Options{
		Devices: backend.Options{Backend: "go"}, Train: train.Options{Warmup: 1}, Repeats: 1,
	}}}
}

// smallest returns a course with only its smallest size and some of its runs.
func smallest(t *testing.T, name string, runs ...string) course {
	c, err := find(name)
	require.NoError(t, err)
	c.Sizes, c.Questions = c.Sizes[len(c.Sizes)-1:], false
	c.Runs = slices.DeleteFunc(c.Runs, func(e assignedRun) bool { return !slices.Contains(runs, e.Name) })
	c.Figures = slices.DeleteFunc(c.Figures, func(f figure) bool {
		return slices.ContainsFunc(f.runs(), func(name string) bool { return !slices.Contains(runs, name) })
	})
	for i := range c.Tasks {
		c.Tasks[i].Figures = slices.DeleteFunc(c.Tasks[i].Figures, func(path string) bool { return c.figure(path).Path == "" })
	}
	return c
}

// save writes a reproduction, and returns its files.
func save(t *testing.T, r *Reproduction) (folder string, names []string) {
	folder = filepath.Join(t.TempDir(), "out")
	f, err := Folder(folder, r.Course)
	require.NoError(t, err)
	require.NoError(t, r.Save(context.Background(), f))
	require.NoError(t, filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, err := filepath.Rel(folder, path)
			require.NoError(t, err)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	require.Subset(t, append(f.Guarded, ".psim.json"), names, "somebody else's are found before anything is measured")
	return folder, names
}

func TestSheet(t *testing.T) {
	r, err := Make(context.Background(), "hw4", Options{})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, r.WriteMarkdown(&b))
	golden.Equal(t, "hw4.md", b.String())
}

// The sheet of answers has a section for every question in the assignment's order, with a section
// for each of its parts and the figures that it is about. Numbers are said to be predicted once.
func TestReadme(t *testing.T) {
	r, err := Make(context.Background(), "cs1390", Options{})
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, r.WriteMarkdown(&b))
	var want, got []string
	for _, a := range r.Questions {
		want = append(want, a.ID)
		for _, p := range a.Parts {
			want = append(want, p.ID)
		}
		if a.Observed == nil {
			continue
		}
		_, section, _ := strings.Cut(b.String(), "\n### "+a.ID+": ")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, g := range a.Graphs {
			require.Contains(t, section, "]("+g.File+")\n", a.ID)
			command := r.course.plot(r.course.figure(g.File), "")
			require.Contains(t, section, " By `"+command+"`.\n", a.ID)
			require.True(t, strings.HasSuffix(g.Command, command), "%s: %s, not %s", a.ID, g.Command, command)
		}
		for _, s := range a.Sentences {
			require.Contains(t, section, "\n- "+s.Text+"\n", a.ID)
		}
	}
	for line := range strings.Lines(b.String()) {
		if id, _, ok := strings.Cut(strings.TrimLeft(line, "#"), ":"); ok && strings.HasPrefix(line, "### ") || strings.HasPrefix(line, "#### ") {
			if id = strings.TrimSpace(id); len(got) == 0 || got[len(got)-1] != id && id != "4.4" || id == "4.4" && !slices.Contains(got, id) {
				got = append(got, id)
			}
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, questions.IDs(), slices.Concat(r.course.Tasks[0].Questions, r.course.Tasks[1].Questions, r.course.Tasks[2].Questions, r.course.Tasks[3].Questions))
	lines := strings.Split(b.String(), "\n")
	require.Contains(t, lines[2], "**All numbers and figures are predicted**")
	folder, names := save(t, r)
	require.Contains(t, names, "answers.md")
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	answers, err := os.ReadFile(filepath.Join(folder, "answers.md"))
	require.NoError(t, err)
	require.Equal(t, b.String(), string(readme))
	require.Equal(t, string(readme), string(answers))
}

// Every figure that an assignment names is made, from the runs that it asks for.
func TestFigures(t *testing.T) {
	for name, wanted := range map[string][]string{
		"cs1390": {"graphs/ddp_split_time.png", "graphs/ddp_throughput_comparison.png", "graphs/model_timeline.png", "graphs/model_throughput_comparison.png",
			"graphs/fsdp_throughput_comparison.png", "graphs/pipeline_timeline.png", "graphs/pipeline_throughput_comparison.png"},
		"hw4": {"submit_figures/ddp_time.png", "submit_figures/ddp_throughput.png", "submit_figures/mp_pp_time.png", "submit_figures/mp_pp_throughput.png"},
	} {
		c, err := find(name)
		require.NoError(t, err)
		names := map[string]bool{}
		for _, e := range c.Runs {
			require.False(t, names[e.folder()], "%s: the folder of %s is another's", name, e.Name)
			names[e.folder()] = true
		}
		for _, path := range wanted {
			f := c.figure(path)
			require.Equal(t, path, f.Path)
			for _, name := range f.runs() {
				i := slices.IndexFunc(c.Runs, func(e assignedRun) bool { return e.Name == name })
				require.True(t, c.Runs[i].Asked, "%s of %s", name, path)
			}
		}
		run := func(name string) bool {
			return slices.ContainsFunc(c.Runs, func(e assignedRun) bool { return e.Name == name })
		}
		for _, claim := range c.Claims {
			require.True(t, run(claim.Faster) && run(claim.Slower), claim.Says)
		}
		for _, e := range c.Runs {
			require.True(t, e.Same == "" || run(e.Same), e.Name)
		}
		for _, f := range c.Figures {
			if c.Questions {
				require.NotEmpty(t, c.plot(f, ""), f.Path)
			}
		}
		for _, task := range c.Tasks {
			for _, path := range task.Figures {
				require.NotEmpty(t, c.figure(path).Kind, path)
			}
		}
	}
}

// Measured runs have figures, results and the course's own files, and all of these say what
// was shrunk.
func TestMeasured(t *testing.T) {
	t.Parallel()
	r, err := smallest(t, "cs1390", "ddp=1", "ddp=2", "ddp=4", "model=3").make(context.Background(), options(0))
	require.NoError(t, err)
	for _, run := range r.Runs {
		require.NotNil(t, run.Measured, "%s: %s", run.Name, run.LeftOut)
		require.Equal(t, results.Measured, run.Measured.Kind)
		require.Contains(t, run.Measured.Warnings, "shrunk: batches of 4 instead of 64 samples")
		require.Equal(t, run.shared(), slices.Contains(run.Measured.Warnings, run.sharing()))
	}
	r.Questions, err = questions.Answers(context.Background(), nil, "1.1", "1.3", "2.1", "2.2", "T3.2")
	require.NoError(t, err)
	r.answerMeasured(context.Background())
	require.Len(t, r.MeasuredQuestions, 2, "T3.2 is of predictions alone")
	require.Equal(t, []string{"2.2"}, r.unanswered)
	folder, names := save(t, r)
	for _, name := range []string{"answers.md", "graphs/ddp_split_time.png", "predicted/graphs/ddp_split_time.png", "graphs/model_timeline.png",
		"results/ddp-2/result.json", "results/ddp-2/predicted/result.json", "predicted/results/ddp-2/result.json", "data/stats_model3.json"} {
		require.Contains(t, names, name)
	}
	loaded, err := results.Load(filepath.Join(folder, "results/model-3"))
	require.NoError(t, err)
	require.Equal(t, r.find("model=3").Measured.StepTime, loaded.Result.StepTime)
	text, err := os.ReadFile(filepath.Join(folder, "data/stats_ddp2.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), "batches of 4 instead of 64 samples")
	sheet, err := os.ReadFile(filepath.Join(folder, "answers.md"))
	require.NoError(t, err)
	require.Contains(t, string(sheet), "Measured runs are shrunk to end in time: vgg-mini, VGG16's layers with 10,534 parameters, instead of VGG16; batches of 4 instead of 64 samples")
	require.Contains(t, string(sheet), "(predicted/graphs/model_timeline.png)")
	require.Contains(t, string(sheet), "Too little was measured to answer 2.2.")
}

// The homework's runs are counted in epochs, which have the same samples in all runs.
func TestEpochs(t *testing.T) {
	t.Parallel()
	c := smallest(t, "hw4", "ddp=1", "ddp=4", "model=2")
	c.Tasks = nil // which speak of runs that are not there
	r, err := c.make(context.Background(), options(0))
	require.NoError(t, err)
	for _, run := range r.Runs {
		require.NotNil(t, run.Measured, "%s: %s", run.Name, run.LeftOut)
		require.EqualValues(t, 8, run.Measured.Epochs.Samples)
		require.EqualValues(t, map[string]int{"ddp=1": 8, "ddp=4": 2, "model=2": 2}[run.Name], run.Measured.Epochs.Steps)
		require.Len(t, run.Measured.Epochs.Each, run.Measured.Epochs.Number)
		require.Contains(t, run.Measured.Warnings, "shrunk: epochs of 8 samples instead of 5,000")
	}
	_, names := save(t, r)
	require.Contains(t, names, "workdir/ddp-4/rank3_results_epoch0.json")
	require.Contains(t, names, "predicted/workdir/performance_summary.json")
	require.Equal(t, []string{notToSee, notToSee, notToSee, notToSee}, []string{r.Claims[0].Verdict, r.Claims[1].Verdict, r.Claims[2].Verdict, r.Claims[3].Verdict})
	require.Equal(t, "it was not run", r.Claims[0].Why)
	require.True(t, r.find("ddp=4").Measured.Disturbed, "it shares a core")
}

// A plan ends in the time that may be planned, and uses most of it where epochs can be longer;
// every run has the same epochs.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &measuring{Reproduction: &Reproduction{course: course{Epochs: true, Count: 5}}, Options: options(time.Hour), from: time.Now(), overhead: time.Second}
		var trials []trial
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			pass := time.Duration(rapid.IntRange(1, 5000).Draw(t, "pass")) * time.Millisecond
			trials = append(trials, trial{ReproducedRun: &ReproducedRun{Asked: true}, each: rapid.IntRange(1, 8).Draw(t, "steps"), pass: pass, serial: pass})
		}
		count, times := m.most(trials, 1e6)
		require.GreaterOrEqual(t, count, least)
		for i := range trials {
			trials[i].each *= int(times)
		}
		planned, spare := m.asked(trials, count), m.spare()
		require.LessOrEqual(t, planned, spare+time.Second)
		require.Greater(t, planned, spare*3/4)
	})
}

// A claim holds if the run that should be faster is, by more than chance, on cores of its own.
func TestJudge(t *testing.T) {
	run := func(name string, devices int, rate, deviation float64) *ReproducedRun {
		m := &results.Result{Measurement: &results.Measurement{}, Epochs: &results.Epochs{
			Number: 4, Throughput: results.Throughput{Samples: rate}, ThroughputStd: &results.Throughput{Samples: deviation}}}
		return &ReproducedRun{Name: name, Predicted: results.Result{Devices: devices}, Measured: m, measured: &session.Trial{}}
	}
	for _, x := range []struct {
		faster, slower *ReproducedRun
		verdict, why   string
	}{
		{run("a", 1, 20, 1), run("b", 1, 10, 1), holds, "a trains 20.0 ± 1.00 samples/s and b 10.0 ± 1.00, a speedup of 2.00"},
		{run("a", 1, 10, 1), run("b", 1, 20, 1), fails, "a speedup of 0.50"},
		{run("a", 1, 11, 1), run("b", 1, 10, 1), notToSee, "the difference may be chance: a trains 11.0 ± 1.00 samples/s"},
		{run("a", 1<<20, 20, 1), run("b", 1, 10, 1), notToSee, "oversubscribed: 1048576 workers share"},
		{&ReproducedRun{Name: "a", LeftOut: "takes long"}, run("b", 1, 10, 1), notToSee, "a was not measured: it takes long"},
	} {
		r := &Reproduction{Runs: []*ReproducedRun{x.faster, x.slower}}
		verdict, why := r.judge(claim{Faster: "a", Slower: "b"})
		require.Equal(t, x.verdict, verdict)
		require.Contains(t, why, x.why)
	}
	r := &Reproduction{Runs: []*ReproducedRun{run("a", 1, 20, 1), run("b", 1, 10, 1)}}
	r.find("b").Measured.Disturbed = true
	verdict, why := r.judge(claim{Faster: "b", Slower: "a"})
	require.Equal(t, notToSee, verdict)
	require.Contains(t, why, "something else ran on the machine: ")
	verdict, why = r.judge(claim{Faster: "a", Slower: "b", Unseen: "no GPU"})
	require.Equal(t, notToSee, verdict)
	require.Contains(t, why, "no GPU (a trains 20.0 ± 1.00")
}

// A figure says of which of its runs the shrinking is.
func TestShrinks(t *testing.T) {
	c, err := find("cs1390")
	require.NoError(t, err)
	s := c.Sizes[len(c.Sizes)-2] // which replaces only the whole VGG16
	var texts []string
	r := &Reproduction{course: c}
	for _, name := range []string{"ddp=1", "model=1"} {
		i := slices.IndexFunc(c.Runs, func(e assignedRun) bool { return e.Name == name })
		run, err := c.Runs[i].predict(context.Background())
		require.NoError(t, err)
		config, err := run.assigned.shrink(s)
		require.NoError(t, err)
		run.Shrunk, run.measured = s.shrinks(trial{ReproducedRun: run, config: config}), &session.Trial{}
		texts = append(texts, strings.Join(run.Shrunk, "; "))
		r.Runs = append(r.Runs, run)
	}
	require.Contains(t, texts[0], "34 million parameters")
	require.Equal(t, "batches of 4 instead of 64 samples", texts[1])
	notes := r.shrinks(figure{Runs: "ddp=1,model=1"})
	require.Contains(t, notes[0], "shrunk: ddp=1: VGG16 without")
	require.NotContains(t, strings.Join(r.shrinks(figure{Runs: "model=1"}), ""), "VGG16")
}

// If nothing ends within the budget, that is an error; once it is spent, the other runs are
// left out.
func TestBudget(t *testing.T) {
	t.Parallel()
	c := smallest(t, "cs1390", "ddp=1", "model=3")
	_, err := c.make(context.Background(), options(time.Nanosecond))
	require.ErrorContains(t, err, "nothing was measured: ddp=1: takes about ")
	o := options(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	o.Options.Measure.Stage = func(what string) {
		if strings.HasPrefix(what, "model=3: ") {
			cancel()
		}
	}
	r, err := c.make(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.NotNil(t, r.find("ddp=1").Measured)
	require.NotEmpty(t, r.find("model=3").LeftOut)
	_, names := save(t, r)
	require.Contains(t, names, "graphs/model_timeline.png") // of the prediction
	var text bytes.Buffer
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "not measured: ")
	require.NoError(t, json.NewEncoder(&text).Encode(r))
}

func TestFind(t *testing.T) {
	_, err := Make(context.Background(), "cs1309", Options{})
	require.EqualError(t, err, `unknown course "cs1309"; use hw4 or cs1390; did you mean cs1390?`)
}
