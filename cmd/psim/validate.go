package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"psim/internal/published"
	"psim/internal/questions"
)

func newValidate() *cobra.Command {
	var asJSON, markdown, executed bool
	var p publishedFlags
	var f execFlags
	cmd := &cobra.Command{
		Use:   "validate [ID… | --published [NAME…]]",
		Short: "answer the formula questions, each by closed form and by simulation",
		Long: `validate answers the formula questions of Brown's CS1390 assignment on parallel
training, each in two independent ways: by a closed form, and by simulating the
task graph. It fails (exit code 1) if the two disagree. Without an ID it answers
all; 3.3 stands for all of its parts.

--published instead predicts the rows of published tables and says how far off it
was: a line for every table, or all rows of the NAMEs. --out DIR draws them. Rows
that constants were fitted to are marked and not in the errors.

--executed instead predicts steps of two networks, three schedules and 2, 4 and 8
microbatches, runs them for real on --gpus devices, and says how far off it was.
An experiment during which the machine was disturbed is run again, up to --runs
times in all.`,
		Example: `  psim validate
  psim validate 1.6 4.4
  psim validate --markdown > answers.md
  psim validate --published zero-bubble --out figures
  psim validate --executed                            predictions against this machine`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && markdown {
				return errors.New("--json and --markdown exclude each other: stdout holds one of them")
			}
			if p.published && executed {
				return errors.New("--published and --executed exclude each other")
			}
			for _, name := range executedFlags {
				if cmd.Flags().Changed(name) && !executed {
					return fmt.Errorf("--%s: is for the experiments of --executed, which is not given", name)
				}
			}
			if p.published {
				p.json, p.markdown = asJSON, markdown
				return p.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if p.out != "" {
				return fmt.Errorf("--out %s: is for --published", p.out)
			}
			if executed {
				if len(args) > 0 {
					return fmt.Errorf("--executed runs its own experiments; leave out %s", strings.Join(args, " "))
				}
				f.json = asJSON
				return validateExecuted(cmd.Context(), f, markdown, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return answer(cmd.OutOrStdout(), args, asJSON, markdown)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object and nothing else")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print an answer sheet in Markdown")
	p.register(cmd)
	cmd.Flags().BoolVar(&executed, "executed", false, "predict steps, run them for real and compare")
	f.registerExecuted(cmd)
	return cmd
}

// answer answers formula questions, all or those of some IDs.
func answer(w io.Writer, ids []string, asJSON, markdown bool) error {
	selected, err := questions.Select(ids)
	if err != nil {
		if _, other := published.Select(ids); other == nil {
			return fmt.Errorf("%[1]s: is a published table, not a question; psim validate --published %[1]s replays it", strings.Join(ids, " "))
		}
		return err
	}
	answers, err := questions.Answers(selected...)
	if err != nil {
		return failure{err}
	}
	report := questions.NewReport(answers)
	switch {
	case asJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	case markdown:
		err = report.WriteMarkdown(w)
	default:
		err = report.WriteText(w)
	}
	if err == nil && report.Failed > 0 {
		err = failure{fmt.Errorf("%d of %d questions: closed form and simulation disagree", report.Failed, len(answers))}
	}
	return err
}
