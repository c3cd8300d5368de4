package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"psim/cmd/psim/internal/questions"
)

func newValidate() *cobra.Command {
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "validate [ID…]",
		Short: "answer the formula questions, each by closed form and by simulation",
		Long: `validate answers the formula questions of Brown's CS1390 assignment on parallel
training, each in two independent ways: by a closed form, and by simulating the
task graph. It fails (exit code 1) if the two disagree. Without an ID it answers
all; 3.3 stands for all of its parts.`,
		Example: `  psim validate
  psim validate 1.6 4.4
  psim validate --markdown > answers.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && markdown {
				return errors.New("--json and --markdown exclude each other: stdout holds one of them")
			}
			ids, err := questions.Select(args)
			if err != nil {
				return err
			}
			answers, err := questions.Answers(ids...)
			if err != nil {
				return failure{err}
			}
			report := questions.NewReport(answers)
			switch out := cmd.OutOrStdout(); {
			case asJSON:
				encoder := json.NewEncoder(out)
				encoder.SetIndent("", "  ")
				err = encoder.Encode(report)
			case markdown:
				err = report.WriteMarkdown(out)
			default:
				err = report.WriteText(out)
			}
			if err == nil && report.Failed > 0 {
				err = failure{fmt.Errorf("%d of %d questions: closed form and simulation disagree", report.Failed, len(answers))}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object and nothing else")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print an answer sheet in Markdown")
	return cmd
}
