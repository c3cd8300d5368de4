package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	lib "psim"
	"psim/courses/coursefile"
	"psim/courses/modes"
	"psim/internal/interrupt"
	"psim/internal/units"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/results"
)

type plotFlags struct {
	outputFlags
	config, metric string
	ranks, window  string
	replica        int
	view           picture.View
}

func newPlot() *cobra.Command {
	var f plotFlags
	cmd := &cobra.Command{
		Use:   "plot KIND A…",
		Short: "draw figures of results: " + strings.Join(figures.Names(), ", "),
		Long:  plotManual(),
		Example: `  psim plot timeline out/gpipe
  psim plot timeline out/gpipe out/1f1b --out both.svg
  psim plot timeline pipeline=3 --ranks 0-1 --window 5s-10s
  psim plot memory out/gpipe --out memory.png
  psim plot compare out/gpipe out/1f1b
  psim plot split-time ddp=1,2,4 --out split.pdf
  psim plot throughput fsdp=1 fsdp=2 fsdp=4 ddp=1 ddp=2 ddp=4
  psim plot metric bubble.makespan pipeline=2 pipeline=3 --config gpipe`,
		ValidArgsFunction: completePlot,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("psim plot takes a KIND (%s) and at least one A, a result or MODE=WORKERS\n"+
					"see \"psim plot --help\"", strings.Join(figures.Names(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *plotFlags) register(flags *pflag.FlagSet) {
	f.registerOut(flags, "file to write: .png, .svg or .pdf (default KIND.png)")
	flags.StringVar(&f.config, "config", "",
		"configuration of which MODE=WORKERS is a variant (default the examples vgg16-cpu-MODE)")
	flags.StringArrayVar(&f.sets, "set", nil,
		"change a setting in the predictions of MODE=WORKERS: KEY=VALUE; may be repeated")
	flags.StringVar(&f.metric, "metric", "",
		"heatmap, sweep: the number to draw, by its key in result.json (default step_time_s)")
	flags.StringVar(&f.ranks, "ranks", "", "timeline, compare: ranks to show, such as 0-7 or 0,3")
	flags.IntVar(&f.replica, "replica", 0,
		"timeline, compare: the replica whose ranks to show (default: all, of more than 16 ranks the first)")
	flags.StringVar(&f.window, "window", "", "timeline, compare: part of the time to show, such as 10ms-40ms")
}

// plotManual describes all kinds of figure.
func plotManual() string {
	var b strings.Builder
	b.WriteString(`plot draws a figure, as wide as a page of text. A is the folder of a result or
the result.json in it, predicted or measured; or MODE=WORKERS, which psim predicts:
ddp=2, fsdp=4, model=3 or pipeline=3, of the examples vgg16-cpu-MODE or of --config.
Every worker of ddp and fsdp keeps its batch. Commas separate several of them in one
word: ddp=1,fsdp=1, or ddp=1,2,4 for three of one mode. A prediction and a measurement
of the same configuration on as many devices are drawn side by side.

A may also be a file that a course's own scripts have saved: CS1390's
data/stats_ddp2.json, homework 4's folder of rank0_results_epoch0.json and so on, its log,
homework 5's performance_summary.json, or a folder of several. Such a run is drawn next to
a prediction of the same schedule on as many devices.

`)
	for _, k := range figures.FigureKinds() {
		fmt.Fprintf(&b, "  %-11s %s\n  %-11s (of %s)\n", k.Name, k.Draws, "", k.Takes)
	}
	b.WriteString(`
A sweep is the folder of psim sweep, or its sweep.jsonl. Whiskers are a standard
deviation of the measured steps. The same results give the same bytes.`)
	return b.String()
}

// completePlot completes the kind, and then modes as well as files.
func completePlot(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return figures.Names(), cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, name := range modes.Names() {
		words = append(words, name+"=")
	}
	return words, cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveNoSpace
}

func (f *plotFlags) run(cmd *cobra.Command, args []string) error {
	kind, err := figures.Find(args[0])
	if err != nil {
		return err
	}
	if f.out == "" {
		f.out = kind.Name + ".png"
	}
	if pictureFormat(f.out) == "" {
		return fmt.Errorf("--out %s: the file must end in %s", f.out, pictureEndings())
	}
	to := namedFile{"out", f.out, "plot", f.overwrite}
	if err := to.check(); err != nil {
		return err
	}
	request := figures.Request{Key: f.metric, Pair: coursefile.LoadMeasured}
	args = args[1:]
	if kind.Key {
		request.Key, args = args[0], args[1:]
	}
	if err := f.check(cmd, kind, args); err != nil {
		return err
	}
	request.View = f.view
	if request.Items, err = f.items(cmd.Context(), kind, args); err != nil {
		return err
	}
	request.Notes = figures.PredictedFor(request.Items)
	for _, doubt := range figures.Doubts(request.Items) {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", visible(doubt))
	}
	draw, err := interrupt.Await(cmd.Context(), func() (figures.Picture, error) { return kind.Draw(request) })
	if nothing := new(figures.Nothing); errors.As(err, nothing) {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "psim: no picture is drawn: %v\n", nothing)
		return err
	}
	if err != nil {
		return err
	}
	return to.draw(cmd, func(w io.Writer) error { return draw(w, pictureFormat(f.out)) })
}

// check refuses flags that a kind does not have, and reads the view.
func (f *plotFlags) check(cmd *cobra.Command, kind figures.FigureKind, args []string) (err error) {
	for _, flag := range []struct {
		name string
		has  bool
	}{
		{"ranks", kind.Timeline}, {"replica", kind.Timeline}, {"window", kind.Timeline}, {"metric", kind.Metric},
	} {
		if cmd.Flags().Changed(flag.name) && !flag.has {
			return fmt.Errorf("--%s: does not apply to psim plot %s; remove it", flag.name, kind.Name)
		}
	}
	if len(args) == 0 {
		return fmt.Errorf("psim plot %s takes %s\nsee \"psim plot --help\"", kind.Name, kind.Takes)
	}
	if f.view.Ranks, err = parseRanks(f.ranks); err != nil {
		return err
	}
	if cmd.Flags().Changed("replica") {
		f.view.Replica = &f.replica
	}
	f.view.From, f.view.To, err = parseWindow(f.window)
	return err
}

// items loads the saved results, and predicts those of the form MODE=WORKERS.
func (f *plotFlags) items(ctx context.Context, kind figures.FigureKind, args []string) ([]figures.Item, error) {
	var list []figures.Item
	anyPredicted := false
	for _, arg := range args {
		words := []string{arg}
		if _, err := os.Stat(arg); err != nil {
			words = modes.Words(arg)
		}
		for _, word := range words {
			if word == "" {
				return nil, fmt.Errorf("%q: a name is empty; write results and MODE=WORKERS with single commas", arg)
			}
			run, predicted, err := predictMode(ctx, word, f.config, f.sets...)
			if err != nil {
				return nil, err
			}
			if predicted {
				anyPredicted = true
				list = append(list, figures.Item{Label: word, Run: run})
				continue
			}
			load := func() ([]figures.Item, error) { return kind.Load(word, loadForeign) }
			items, err := interrupt.Await(ctx, load)
			if err != nil {
				return nil, err
			}
			list = append(list, items...)
		}
	}
	if !anyPredicted && (f.config != "" || len(f.sets) > 0) {
		return nil, errors.New("--config and --set: apply only to MODE=WORKERS, such as ddp=2; " +
			"saved results stay as they are")
	}
	return list, nil
}

// loadForeign reads files that the scripts of a course have saved.
func loadForeign(path string) (list []figures.Item, err error) {
	loaded, err := coursefile.Load(path)
	for _, f := range loaded {
		list = append(list, figures.Item{Label: f.Label, Path: f.Path, Run: f.Run})
	}
	return list, err
}

// predictMode predicts a word of the form MODE=WORKERS. It leaves a word of another form, or that
// names a file, to the caller.
func predictMode(
	ctx context.Context, word, config string, sets ...string,
) (run results.Run, predicted bool, err error) {
	m, workers, ok, err := modes.Parse(word)
	if _, problem := os.Stat(word); problem == nil || !ok {
		return run, false, nil
	}
	if err != nil {
		return run, false, err
	}
	c, err := m.Load(workers, config, sets...)
	if err != nil {
		return run, false, fmt.Errorf("%s: %w", word, err)
	}
	p, err := lib.Predict(ctx, c)
	if err != nil {
		return run, false, fmt.Errorf("%s: %w", word, err)
	}
	return p.Run(), true, nil
}

// parseRanks reads lists and ranges of ranks, such as 0-7 or 0,3. An empty text gives nil.
func parseRanks(text string) (ranks []int, err error) {
	if text == "" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		a, err1 := strconv.Atoi(low)
		b, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || a > b || b-a > 1<<20 {
			return nil, fmt.Errorf("--ranks %s: must be ranks, such as 0-7 or 0,3", text)
		}
		for r := a; r <= b; r++ {
			if !slices.Contains(ranks, r) {
				ranks = append(ranks, r)
			}
		}
	}
	return ranks, nil
}

// parseWindow reads two times, such as 10ms-40ms. An empty text gives 0 and 0, which show all.
func parseWindow(text string) (from, to time.Duration, err error) {
	if text == "" {
		return 0, 0, nil
	}
	low, high, _ := strings.Cut(text, "-")
	a, err1 := units.ParseDuration(low)
	b, err2 := units.ParseDuration(high)
	if err1 != nil || err2 != nil || a >= b || a < 0 {
		return 0, 0, fmt.Errorf("--window %s: must be two times, the earlier first, such as 10ms-40ms", text)
	}
	return time.Duration(a), time.Duration(b), nil
}
