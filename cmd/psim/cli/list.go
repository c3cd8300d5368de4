package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/configs/lists"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/courses/questions"
	"psim/internal/nearest"
	"psim/internal/units"
	"psim/internal/wrap"
	"psim/published"
	"psim/schedules"
	"psim/schedules/collective"
)

// A listing is a table that psim list prints.
type listing struct {
	name  string
	write func(w io.Writer, verbose bool)
}

func listings() []listing {
	return []listing{
		{"schedules", listSchedules},
		{"models", listModels},
		{"kernels", lists.WriteKernels},
		{"stacks", func(w io.Writer, verbose bool) { lists.WriteStacks(w, published.Standing, verbose) }},
		{"devices", lists.WriteDevices},
		{"links", lists.WriteLinks},
		{"machines", lists.WriteMachines},
		{"examples", listExamples},
		{"questions", func(w io.Writer, _ bool) { questions.WriteList(w) }},
	}
}

func newList() *cobra.Command {
	var verbose bool
	var names []string
	for _, l := range listings() {
		names = append(names, l.name)
	}
	cmd := &cobra.Command{
		Use:       "list " + strings.Join(names, "|"),
		Short:     "list schedules, models, kernels, stacks, devices, links, machines, examples or questions",
		Example:   "  psim list schedules\n  psim list devices --verbose",
		ValidArgs: names,
		Args:      exactArgs(1, "one of "+strings.Join(names, ", ")),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.Index(names, args[0])
			if i < 0 {
				return fmt.Errorf("unknown list %q; use one of %s%s",
					args[0], strings.Join(names, ", "), nearest.Suggest(args[0], names))
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			listings()[i].write(table, verbose)
			return table.Flush()
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false,
		"more: what each schedule is for, what kernels and stacks are made of, "+
			"the source of every value of a device, link or machine")
	return cmd
}

func listSchedules(w io.Writer, verbose bool) {
	catalog := schedules.Catalog()
	if verbose {
		describeSchedules(w, catalog)
		catalog = nil
	}
	fmt.Fprintln(w, "schedule\tbubble\tin flight on rank r\twhat it does\tneeds\tpaper")
	for _, s := range catalog {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n",
			s.Name, s.Bubble, s.Memory, s.Summary, cmp.Or(s.Constraint, "-"), s.Paper)
	}
	for _, row := range [][]string{
		{"fsdp", "0", "1", "ddp with parallel.zero = 3: parameters sharded layer by layer",
			"[model]", "Zhao et al. 2023, PyTorch FSDP"},
		{"auto", "-", "what memory allows", "the order of F, I and W with the shortest span that a search finds",
			"times", "Qi et al. 2023, Zero Bubble"},
		{"auto-v", "-", "what memory allows", "the same over the V of zbv",
			"times, 2 stages per rank", "Qi et al. 2024, Controllable Memory"},
	} {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	fmt.Fprintln(w, "\ncollective\tsteps\tbytes sent per rank\twhat it does")
	for _, c := range collective.Collectives() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.Steps, c.Sent, c.Summary)
	}
}

func describeSchedules(w io.Writer, catalog []schedules.Schedule) {
	for _, s := range catalog {
		fmt.Fprintf(w, "%s: %s\n  %s\n", s.Name, s.Summary, wrap.Text(s.About, 84, "  "))
		fmt.Fprintf(w, "  bubble\t%s\n  in flight\t%s\n", s.Bubble, s.Memory)
		if s.Constraint != "" {
			fmt.Fprintf(w, "  needs\t%s\n", s.Constraint)
		}
		fmt.Fprintf(w, "  paper\t%s\n\n", s.Paper)
	}
}

func listModels(w io.Writer, _ bool) {
	fmt.Fprintln(w, "model\tparameters\tof a token\ttensors\tlayers\ttokens\ttheir forward FLOPs\twhat it is")
	for _, p := range models.Presets() {
		n, err := models.Model{Preset: p.Name}.Network()
		if err != nil {
			continue // tests build every preset
		}
		tokens := "-"
		if p.SequenceLength > 0 {
			tokens = units.FormatCount(int64(n.TokensPerSample))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%.4g\t%s\n",
			p.Name, units.FormatCount(n.Parameters()), units.FormatCount(n.ActiveParameters()),
			len(n.ParameterTensors()), layersOf(n), tokens, n.ModelFLOPs()/3, p.Summary)
	}
	fmt.Fprintln(w, "\nForward FLOPs are of one sample of as many tokens, the length of the pre-training.\n"+
		"Attention counts as for MFU: the whole square; with a window its tokens for each token.")
}

// layersOf counts the blocks of a transformer, which its authors call layers, or the layers of another network.
func layersOf(n network.Network) (count int) {
	for _, l := range n.Layers {
		if l.IsBlock() {
			count++
		}
	}
	return cmp.Or(count, len(n.Layers))
}

func listExamples(w io.Writer, _ bool) {
	fmt.Fprintln(w, "example\twhat it is")
	for _, name := range slices.Concat(configs.Examples(), configs.Plans()) {
		fmt.Fprintf(w, "%s\t%s\n", name, configs.ExampleSummary(name))
	}
}

func newShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "print the configuration of an example or a preset",
		Long: `show prints an embedded example (psim list examples) unchanged, or the plan that psim
assumes for a preset (psim list models; model:NAME if an example has the same name) or for
the config.json of a network: a TOML file as a start for your own. Comments say what the
network is: parameters, FLOPs of a token, and what its layers hold.`,
		Example: "  psim show gpipe\n  psim show gpipe > my.toml\n  psim show llama3-8b\n" +
			"  psim show config.json > my.toml",
		Args:              exactArgs(1, "the NAME of an example (psim list examples), a preset or a config.json"),
		ValidArgsFunction: completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := configs.Example(args[0])
			if err != nil {
				return err
			}
			if err := showNetwork(cmd.OutOrStdout(), args[0]); err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// showNetwork prints what is known of a network that was named without a plan, as comments.
func showNetwork(w io.Writer, name string) error {
	c, err := configs.Load(name)
	if err != nil || c.HasPlan() {
		return nil // an example says what it is
	}
	n, err := c.Undivided()
	if err != nil {
		return err
	}
	lists.WriteNetwork(w, n, c.Model.Preset)
	_, err = fmt.Fprintln(w)
	return err
}
