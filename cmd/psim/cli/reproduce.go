package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"psim/courses"
	"psim/exec/backend"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
	"psim/internal/files"
)

type reproduceFlags struct {
	runFlags
	measure, full bool
	budget        time.Duration
	backend       string
}

const reproduceManual = `reproduce makes everything that an assignment on parallel training asks to hand in: hw4 is
that of CMU's 11-868 (LLM Systems), GPT-2 with data, model and pipeline parallelism, and
cs1390 that of Brown's CS1390, VGG16 with DDP, FSDP, model and pipeline parallelism.
Every run is predicted, on 1 to 8 workers as far as the method allows, at the
assignment's own size. --out holds the figures under the names that the assignment
gives them, the results, and answers.md with every question, number and graph, which
cs1390 also has as README.md. The command below a figure draws it again.

--measure also runs them on the cores of this machine, in batches, networks and
numbers of steps that end within --budget: first all runs of the assignment, and
then the others as far as time allows. The figures then show the measured runs, each
next to its own prediction, and name what was shrunk; the folder predicted
has those of the other runs. If there are more workers than cores, they share the cores,
and such runs are marked as oversubscribed and disturbed. For hw4 psim then says which
of the assignment's claims hold on this machine, and which cannot be seen on it. --full
measures in the assignment's own sizes, which takes hours on a few cores.

An interrupt ends it; the measurements until then are kept.`

func newReproduce() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce " + strings.Join(courses.Names(), "|"),
		Short: "make all that a course's assignment asks for: runs, figures, results, answers",
		Long:  reproduceManual,
		Example: `  psim reproduce cs1390
  psim reproduce hw4 --out my-hw4 --measure --budget 15m`,
		Args:              exactArgs(1, "one course, "+strings.Join(courses.Names(), " or ")),
		ValidArgsFunction: completeCourses,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), args[0], streamsOf(cmd))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.measure, "measure", false, "also run it for real, shrunk to the budget")
	flags.BoolVar(&f.full, "full", false,
		"with --measure: in the assignment's own sizes, as long as it takes unless --budget is given")
	flags.DurationVar(&f.budget, "budget", 7*time.Minute,
		"with --measure: how long measuring may take; the default lets both courses end within 15m")
	flags.StringVar(&f.backend, "backend", "go",
		"with --measure: what computes: go, xla or xla:/absolute/path/of/plugin.so")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	f.registerOutput(flags, outputHelp{
		json: "print all results as one JSON object and nothing else",
		out:  "folder to write to; - for none (default out/COURSE)",
	})
	return cmd
}

// completeCourses completes the names of the courses.
func completeCourses(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return courses.Names(), cobra.ShellCompDirectiveNoFileComp
}

// check refuses flags that need --measure, and budgets too short for any run.
func (f *reproduceFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"full", "budget", "backend"} {
		if cmd.Flags().Changed(name) && !f.measure {
			return fmt.Errorf("--%s: applies only to --measure, which is not given", name)
		}
	}
	if f.full && !cmd.Flags().Changed("budget") {
		f.budget = 0
	} else if f.budget < time.Second {
		return fmt.Errorf("--budget %s: must be at least 1s, such as 15m", f.budget)
	}
	return nil
}

func (f reproduceFlags) run(ctx context.Context, name string, std streams) error {
	to, err := courses.Folder(filepath.Join("out", name), name)
	if err != nil {
		return err
	}
	folder := f.outputFolder(to)
	if err := f.checkOut(folder); err != nil {
		return err
	}
	p := newProgress(std.err, f.quiet)
	o := courses.Options{Measure: f.measure, Full: f.full, Budget: f.budget}
	o.Options = session.Options{Seed: 1390, Measure: measure.Options{
		Devices: backend.Options{Backend: f.backend}, Train: train.Options{Warmup: 1}, Repeats: 1, Stage: p.show,
	}}
	o.Options.Measure.Train.Run.Stall = 10 * time.Minute
	r, err := courses.Make(ctx, name, o)
	p.clear()
	if r == nil {
		return err
	}
	if err != nil {
		folder = folder.Aside()
	}
	if f.measure { // measurements are saved after an interrupt, too
		ctx = context.WithoutCancel(ctx)
	}
	var unsaved error
	if folder.Path != "" {
		if unsaved = r.Save(ctx, folder); unsaved == nil {
			f.reportWritten(std.err, "answers, figures and results", folder.Path)
		}
	}
	return errors.Join(f.print(std.out, r), failed(unsaved), failed(err))
}

func (f reproduceFlags) print(stdout io.Writer, r *courses.Reproduction) error {
	if f.json {
		return files.WriteJSON(stdout, r)
	}
	return r.WriteText(stdout)
}
