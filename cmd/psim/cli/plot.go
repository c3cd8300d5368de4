package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/courses/coursefile"
	"psim/courses/modes"
	"psim/internal/interrupt"
	"psim/internal/units"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/reports/trace"
	"psim/results"
)

type plotFlags struct {
	out, config, metric string
	ranks, window       string
	replica             int
	sets                []string
	view                picture.View
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
				return fmt.Errorf("psim plot takes a KIND (%s) and at least one A, a result or MODE=WORKERS\nsee \"psim plot --help\"", strings.Join(figures.Names(), ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.Var((*named)(&f.out), "out", "file to write: .png, .svg or .pdf (default KIND.png)")
	flags.StringVar(&f.config, "config", "", "configuration that MODE=WORKERS is of (default the examples vgg16-cpu-MODE)")
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting of what MODE=WORKERS predicts: KEY=VALUE; may be repeated")
	flags.StringVar(&f.metric, "metric", "", "heatmap, sweep: the number to draw, by its key in result.json (default step_time_s)")
	flags.StringVar(&f.ranks, "ranks", "", "timeline, compare: ranks to show, such as 0-7 or 0,3")
	flags.IntVar(&f.replica, "replica", 0, "timeline, compare: the replica whose ranks to show (default: all, of more than 16 ranks the first)")
	flags.StringVar(&f.window, "window", "", "timeline, compare: part of the time to show, such as 10ms-40ms")
	return cmd
}

// plotManual describes all kinds of figure.
func plotManual() string {
	var b strings.Builder
	b.WriteString(`plot draws a figure, at the width of a page of text. A is the folder of a result or
the result.json in it, predicted or measured; or MODE=WORKERS, which psim predicts:
ddp=2, fsdp=4, model=3 or pipeline=3, of the examples vgg16-cpu-MODE or of --config,
where every worker of ddp and fsdp keeps its batch. Several may stand in one word:
ddp=1,fsdp=1, or ddp=1,2,4 for three of one mode. A prediction and a measurement of
the same configuration on as many devices stand side by side.

A may also be what a course's own scripts have saved: CS1390's data/stats_ddp2.json,
homework 4's folder of rank0_results_epoch0.json and so on, its log, homework 5's
performance_summary.json, or a folder of several. Such a run stands beside a prediction
of the same schedule on as many devices.

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
	for _, doubt := range figures.Doubts(request.Items) {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", visible(doubt))
	}
	picture, err := interrupt.Await(cmd.Context(), func() (figures.Picture, error) { return kind.Draw(request) })
	if nothing := new(figures.Nothing); errors.As(err, nothing) {
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "psim: no picture is drawn: %v\n", nothing)
		return err
	}
	if err != nil {
		return err
	}
	return writeOne(cmd, "out", f.out, func(w io.Writer) error { return picture(w, pictureFormat(f.out)) })
}

// check refuses flags that a kind does not have, and reads the view.
func (f *plotFlags) check(cmd *cobra.Command, kind figures.FigureKind, args []string) (err error) {
	for _, flag := range []struct {
		name string
		has  bool
	}{{"ranks", kind.Timeline}, {"replica", kind.Timeline}, {"window", kind.Timeline}, {"metric", kind.Metric}} {
		if cmd.Flags().Changed(flag.name) && !flag.has {
			return fmt.Errorf("--%s: psim plot %s has none; remove it", flag.name, kind.Name)
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

// items loads results and predicts what was not run.
func (f *plotFlags) items(ctx context.Context, kind figures.FigureKind, args []string) (list []figures.Item, err error) {
	predicts := false
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
				predicts = true
				list = append(list, figures.Item{Label: word, Run: run})
				continue
			}
			items, err := interrupt.Await(ctx, func() ([]figures.Item, error) { return kind.Load(word, loadForeign) })
			if err != nil {
				return nil, err
			}
			list = append(list, items...)
		}
	}
	if !predicts && (f.config != "" || len(f.sets) > 0) {
		return nil, errors.New("--config and --set: are for MODE=WORKERS, such as ddp=2; saved results stay as they are")
	}
	return list, nil
}

// loadForeign reads what the scripts of a course have saved.
func loadForeign(path string) (list []figures.Item, err error) {
	found, err := coursefile.Load(path)
	for _, f := range found {
		list = append(list, figures.Item{Label: f.Label, Path: f.Path, Run: f.Run})
	}
	return list, err
}

// predictMode predicts MODE=WORKERS; it does not what is a file or has another form.
func predictMode(ctx context.Context, word, config string, sets ...string) (run results.Run, predicted bool, err error) {
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

// parseRanks reads lists and ranges of ranks; "" is nil.
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

// parseWindow reads two times; "" is all.
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

// pictureFormat returns the format that a file's name asks for, or nothing.
func pictureFormat(path string) string {
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains(trace.Formats(), format) {
		return ""
	}
	return format
}

// pictureEndings lists how the names of pictures end.
func pictureEndings() string {
	formats := trace.Formats()
	return "." + strings.Join(formats[:len(formats)-1], ", .") + " or ." + formats[len(formats)-1]
}
