package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"psim/cmd/psim/slurm"
)

const statusManual = `status says how far a search or sweep is that --submit slurm has submitted: a line for
every shard, the best step that any of them knows, and the time that is left if shards
take as long as those that are done. It reads the files in DIR and asks squeue, so
that it may be asked on any machine of the cluster, at any time. A shard failed if its
command is wrong (exit code 2): it would fail again. It is missing if it was ended from
outside, or failed for another reason.

--resubmit submits again what is missing or has failed, and the merge if that is missing.
The exit code is 1 if nothing is left that would make an answer.

--merge is what the job that merges asks before it does: it submits missing shards again,
unless this is the third time, and says so. Its exit code is 0 if all shards are there.`

// statusFlags hold the flags of status.
type statusFlags struct {
	json, resubmit bool
	try            int
}

func newStatus() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:     "status DIR",
		Short:   "say how far a submitted search or sweep is",
		Long:    statusManual,
		Example: "  psim status out/plans\n  psim status out/plans --resubmit",
		Args:    exactArgs(1, "the folder of --out"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.try < 0 || cmd.Flags().Changed("merge") && f.try < 1 {
				return fmt.Errorf("--merge %d: must be at least 1", f.try)
			}
			if f.json && f.resubmit || f.try > 0 && (f.json || f.resubmit) {
				return errors.New("--json, --resubmit and --merge: give one of them")
			}
			s, err := slurm.Load(args[0])
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), s, streamsOf(cmd))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print the counts as one JSON object and nothing else")
	flags.BoolVar(&f.resubmit, "resubmit", false, "submit what is missing or has failed again")
	flags.IntVar(&f.try, "merge", 0, "for the job that merges: how often it has asked")
	return cmd
}

// run does with a submission what the flags say.
func (f statusFlags) run(ctx context.Context, s *slurm.Submission, std streams) error {
	if f.resubmit {
		done, err := s.Resubmit(ctx)
		if done != "" {
			fmt.Fprintln(std.out, done)
		}
		return failed(err)
	}
	if f.try > 0 {
		said, err := s.Ready(ctx, f.try)
		if err == nil && said != "" {
			fmt.Fprintln(std.out, said)
			return reported{failure{errors.New(said)}}
		}
		return failed(err)
	}
	now, err := s.Outlook(ctx)
	if err != nil {
		return failed(err)
	}
	if f.json {
		err = now.WriteJSON(std.out)
	} else {
		err = now.WriteText(std.out)
	}
	if err == nil && now.Stuck() {
		err = reported{failure{errors.New("nothing is left that would make an answer")}}
	}
	return err
}
