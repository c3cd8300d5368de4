package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/courses/questions"
	"psim/exec/validation"
	"psim/internal/files"
	"psim/published"
	"psim/reports/picture"
)

type validateFlags struct {
	execFlags
	markdown, published, executed bool
	resume                        string
	with                          []string
}

const validateManual = `validate answers the questions of Brown's CS1390 assignment on parallel training.
It answers questions about formulas in two independent ways: by a closed form, and by
simulating the task graph. It answers questions about graphs from predicted runs, in
sentences with the runs' numbers, each of which is checked. It fails (exit code 1) if
the two ways disagree, or if the runs do not show what is expected. Without an ID it
answers all questions; 3.3 stands for all of its parts, and 1.1a for one part of 1.1.

--with NAME=VALUE answers a question about a formula with your own value of one of its
symbols, in the symbol's unit, and simulates that; of several questions, those that have
the symbol.

--published instead predicts the rows of published tables and prints the errors
of the predictions: a line for each table, or all rows of the tables in NAME, and the mean
over sources of training runs, each of which has one vote. --out DIR draws them. Rows to
which constants were fitted are marked, and left out of the errors.

--executed instead predicts steps of two networks (exec, exec-mlp), runs them for real
on --gpus devices, and prints the errors of the predictions: model-parallel, gpipe and
1f1b with 2, 4 and 8 microbatches, zbv, ddp, and fsdp with reduce-scatters and without
(fsdp-gloo); and some of them over two processes (processes). Names of networks and
schedules restrict it to these. Every experiment is run --runs times, and the run with the
median error counts. With --resume FILE it can be ended, and continued later.`

func newValidate() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate [ID… | --published [NAME…] | --executed [NAME…]]",
		Short: "answer the course's questions, by closed form and by simulation",
		Long:  validateManual,
		Example: `  psim validate
  psim validate 1.6 4.4
  psim validate 1.6 --with W=16 --with B=400
  psim validate --markdown > answers.md
  psim validate --published zero-bubble --out figures
  psim validate --executed                            predictions against this machine
  psim validate --executed exec-mlp fsdp              some of them`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return f.names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			switch {
			case f.published:
				return f.replay(cmd.Context(), args, streamsOf(cmd))
			case f.executed:
				return f.execute(cmd.Context(), args, streamsOf(cmd))
			}
			return f.answer(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// names lists the arguments that the flags allow: experiments, questions or tables.
func (f *validateFlags) names() (names []string) {
	switch {
	case f.executed:
		return validation.Names()
	case !f.published:
		return questions.IDs()
	}
	tables, _ := published.Select(nil) // all of them
	for _, t := range tables {
		names = append(names, t.Name)
	}
	return names
}

// register declares the flags, among them those that apply only to --executed.
func (f *validateFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.json, "json", false, "print one JSON object and nothing else")
	flags.BoolVar(&f.markdown, "markdown", false, "print an answer sheet in Markdown")
	flags.StringArrayVar(&f.with, "with", nil, "answer for your own value of a symbol: NAME=VALUE; may be repeated")
	flags.BoolVar(&f.published, "published", false, "predict the rows of published tables")
	f.registerOut(flags, "folder for the scatter plots of --published")
	flags.BoolVar(&f.executed, "executed", false, "predict steps, run them for real and compare")
	f.registerExecuted(flags)
}

// check refuses flags that cannot be combined.
func (f validateFlags) check(flags *pflag.FlagSet) error {
	switch {
	case f.json && f.markdown:
		return errors.New("--json and --markdown cannot be combined; stdout holds one of them")
	case f.published && f.executed:
		return errors.New("--published and --executed cannot be combined")
	case len(f.with) > 0 && (f.published || f.executed):
		return fmt.Errorf("--with %s: applies only to questions, which --published and --executed do not answer",
			f.with[0])
	}
	for _, name := range executedFlags {
		if name == "set" && flags.Changed(name) && !f.executed {
			return fmt.Errorf("--set %s: changes the experiments of --executed, which is not given; "+
				"a symbol of a question is changed by --with NAME=VALUE", f.sets[0])
		}
		if flags.Changed(name) && !f.executed {
			return fmt.Errorf("--%s: applies only to the experiments of --executed, which is not given", name)
		}
	}
	if f.out != "" && !f.published {
		return fmt.Errorf("--out %s: applies only to --published", f.out)
	}
	return nil
}

func (f validateFlags) answer(ctx context.Context, ids []string, w io.Writer) error {
	selected, err := questions.Select(ids)
	if err != nil {
		if _, other := published.Select(ids); other == nil {
			return fmt.Errorf("%[1]s: is a published table, not a question; psim validate --published %[1]s replays it",
				strings.Join(ids, " "))
		}
		return err
	}
	var answers []questions.QuestionAnswer
	if len(f.with) > 0 {
		answers, err = questions.AnswersWith(ctx, f.with, selected...)
		err = flagged("with", err)
	} else if answers, err = questions.Answers(ctx, nil, selected...); err != nil {
		err = failure{err}
	}
	if err != nil {
		return err
	}
	report := questions.NewSheet(answers)
	err = f.print(w, report, report.WriteMarkdown, func(w io.Writer) error {
		return report.WriteText(w, len(ids) > 0 || len(f.with) > 0)
	})
	if err == nil && report.Failed > 0 {
		err = failure{fmt.Errorf("%d of %d questions: closed form and simulation disagree, "+
			"or runs do not show what is expected", report.Failed, len(answers))}
	}
	return err
}

func (f validateFlags) print(w io.Writer, report any, markdown, text func(io.Writer) error) error {
	switch {
	case f.json:
		return files.WriteJSON(w, report)
	case f.markdown:
		return markdown(w)
	}
	return text(w)
}

// replay predicts the published tables with the given names, or all tables without names.
func (f validateFlags) replay(ctx context.Context, names []string, std streams) error {
	tables, err := published.Select(names)
	if err != nil {
		return err
	}
	all, err := published.Select(nil)
	if err != nil {
		return err
	}
	f.clearDash()
	folder := f.to(files.Folder{
		Path: f.out, Owner: "validate",
		Guarded: slices.Concat(published.FigureNames(tables), published.PageNames(tables)),
		Writes:  slices.Concat(published.FigureNames(all), published.PageNames(all)),
	})
	if err := f.checkOut(folder); err != nil {
		return err
	}
	report, err := published.Replay(ctx, tables)
	if err != nil {
		return failure{err}
	}
	var unsaved error
	pages := "" // the folder that the Markdown refers to
	if f.out != "" {
		pages = filepath.Base(f.out)
		if unsaved = f.draw(ctx, report, folder); unsaved == nil {
			fmt.Fprintln(std.err, "wrote", visible(f.out))
		}
	}
	markdown := func(w io.Writer) error { return report.WriteMarkdown(w, pages) }
	text := report.WriteText
	if len(names) == 0 {
		text = report.WriteSummary
	}
	return errors.Join(f.print(std.out, report, markdown, text), unsaved)
}

// draw writes the figures of a report into a folder, and with --markdown the pages of its tables.
func (f validateFlags) draw(ctx context.Context, r published.Report, folder files.Folder) error {
	figures := r.Figures()
	var list []files.File
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		list = append(list, files.File{Path: name + ".png", Render: func(w io.Writer) error {
			return picture.Scatter(w, picture.PNG, figures[name])
		}})
	}
	if f.markdown {
		for _, page := range r.Pages(".") {
			list = append(list, files.File{Path: page.Name, Render: func(w io.Writer) error {
				_, err := io.WriteString(w, page.Text)
				return err
			}})
		}
	}
	return failed(folder.Write(ctx, list))
}
