package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	lib "psim"
	"psim/configs"
	"psim/internal/files"
	"psim/internal/interrupt"
	"psim/internal/nearest"
	"psim/internal/ram"
	"psim/reports/picture"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
	"psim/schedules/order"
)

type scheduleFlags struct {
	shape                 graph.Shape
	format, plot, dialect string
	messages, deadlock    bool
	clock, overwrite      bool
}

// dialects are the versions of PyTorch whose forms with messages differ: from 2.15 on a send has a WAIT.
var dialects = []string{"torch-2.15", "torch-2.14"}

const scheduleManual = `schedule prints the compute order of every rank. An action is
<stage><F, B, I or W><microbatch>: 2F0 is the forward of stage 2, microbatch 0.
The csv format is PyTorch's compute-only schedule notation, a row per rank; with
--messages it also has SEND and RECV, and the WAIT of every send, as PyTorch 2.15 reads
it (--for torch-2.14: without WAIT). A FILE.csv in any of these forms may be given
instead of a name, and is checked; [schedule] file simulates and executes it.

--deadlock prints whether every rank gets to its end if it runs its actions one after
another: with buffered sends, and with sends that block until they are received. If
not, it prints where every rank is stuck.

--clock prints clock cycles instead of ranks: the (microbatch, stage) pairs that run
in the same cycle, if every action takes one cycle and messages take none.`

func newSchedule() *cobra.Command {
	var f scheduleFlags
	names := schedules.Names()
	cmd := &cobra.Command{
		Use:   "schedule NAME|FILE.csv",
		Short: "print the order of tasks in a schedule, without times",
		Long:  scheduleManual,
		Example: `  psim schedule 1f1b --stages 4 --microbatches 8
  psim schedule gpipe --stages 2 --microbatches 4 --format csv
  psim schedule interleaved-1f1b --stages 2 --microbatches 4 --virtual 2
  psim schedule gpipe --stages 3 --microbatches 4 --clock
  psim schedule zb-h1 --plot zb-h1.png
  psim schedule 1f1b --stages 2 --microbatches 4 --deadlock`,
		ValidArgs: names,
		Args:      exactArgs(1, "one NAME of a schedule ("+strings.Join(names, ", ")+") or FILE.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			find := func() (namedOrder, error) { return f.find(cmd, args[0]) }
			w, err := interrupt.Await(cmd.Context(), find)
			if err != nil {
				return err
			}
			return f.write(cmd, w)
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *scheduleFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&f.shape.Ranks, "stages", 4, "pipeline ranks")
	flags.IntVar(&f.shape.Microbatches, "microbatches", 8, "microbatches")
	flags.IntVar(&f.shape.Virtual, "virtual", 1, "stages per rank")
	flags.IntVar(&f.shape.Group, "group", 0,
		"interleaved-1f1b: microbatches per round, as Megatron counts (default: equal rounds)")
	flags.StringVar(&f.format, "format", "text", "text, csv or json")
	flags.BoolVar(&f.messages, "messages", false, "with SEND, RECV and WAIT, where PyTorch puts them")
	flags.StringVar(&f.dialect, "for", dialects[0],
		"the program that reads --messages: "+strings.Join(dialects, " or "))
	flags.BoolVar(&f.deadlock, "deadlock", false, "instead of the order, whether and where it hangs")
	flags.BoolVar(&f.clock, "clock", false, "instead of the order, the (microbatch, stage) pairs of every clock cycle")
	flags.Var((*pathValue)(&f.plot), "plot",
		"also draw the order, every action of one unit (B of two), to a .png, .svg or .pdf")
	registerOverwrite(flags, &f.overwrite)
}

func (f *scheduleFlags) check() error {
	switch {
	case !slices.Contains([]string{"text", "csv", "json"}, f.format):
		return fmt.Errorf("--format %s: use text, csv or json", f.format)
	case !slices.Contains(dialects, f.dialect):
		return fmt.Errorf("--for %s: use %s", f.dialect, strings.Join(dialects, " or "))
	case f.dialect != dialects[0] && !f.messages:
		return fmt.Errorf("--for %s: needs --messages; the form without messages is the same", f.dialect)
	case f.clock && (f.messages || f.deadlock):
		return errors.New("--clock: cannot be combined with --messages or --deadlock; cycles hold only computation")
	case f.shape.Virtual < 1:
		return fmt.Errorf("--virtual %d: must be at least 1", f.shape.Virtual)
	case f.plot != "" && pictureFormat(f.plot) == "":
		return fmt.Errorf("--plot %s: the file must end in %s", f.plot, pictureEndings())
	case f.plot != "":
		if err := f.picture().check(); err != nil {
			return err
		}
	}
	return ram.CheckTasks(2 * float64(f.shape.Ranks) * float64(f.shape.Microbatches) * float64(f.shape.Virtual))
}

// picture returns the file of --plot.
func (f *scheduleFlags) picture() namedFile { return namedFile{"plot", f.plot, "plot", f.overwrite} }

// A namedOrder is an order to print, with its schedule and size.
type namedOrder struct {
	schedules.Schedule
	shape graph.Shape
	order order.Order
}

// find makes the order of the schedule with a name, or reads the order in a file.
func (f *scheduleFlags) find(cmd *cobra.Command, name string) (w namedOrder, err error) {
	if strings.HasSuffix(name, ".csv") {
		return f.read(cmd, name)
	}
	if w.Schedule, err = schedules.Find(name); err != nil {
		return w, unknownOrderError(name, err)
	}
	if !w.Pipelined && !cmd.Flags().Changed("stages") {
		f.shape.Ranks = 1
	}
	w.shape = w.Sized(f.shape)
	if w.order, err = w.Order(f.shape, nil); err != nil {
		return w, shapeFlagError(err)
	}
	err = f.addMessages(&w)
	return w, err
}

// read reads the order in a file, which also gives its size.
func (f *scheduleFlags) read(cmd *cobra.Command, path string) (w namedOrder, err error) {
	for _, flag := range []string{"stages", "microbatches", "virtual", "group"} {
		if cmd.Flags().Changed(flag) {
			return w, fmt.Errorf("--%s: follows from %s; remove it", flag, path)
		}
	}
	if w.order, err = files.Read(path, order.ReadCSV); err == nil {
		w.Schedule, w.shape, err = schedules.Custom(filepath.Base(path), w.order)
	}
	if os.IsNotExist(err) {
		return w, fmt.Errorf("%s: no such file", path)
	}
	if err != nil && !strings.HasPrefix(err.Error(), path) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err == nil {
		err = f.addMessages(&w)
	}
	return w, err
}

// addMessages does what --messages and --for ask for.
func (f *scheduleFlags) addMessages(w *namedOrder) (err error) {
	if f.messages && !w.order.HasMessages() {
		w.order, err = w.order.WithMessages()
	}
	switch {
	case err != nil || !f.messages:
		return err
	case f.dialect == dialects[0]:
		w.order = w.order.WithWaits()
	default:
		w.order = w.order.WithoutWaits()
	}
	return nil
}

// write draws the order if --plot is given, and prints it, its clock cycles or its hangs.
func (f *scheduleFlags) write(cmd *cobra.Command, w namedOrder) error {
	if f.plot != "" {
		if err := w.plot(cmd, f.picture()); err != nil {
			return err
		}
	}
	text, err := interrupt.Await(cmd.Context(), func() (string, error) {
		var text strings.Builder
		var err error
		switch {
		case f.deadlock:
			err = w.writeHangs(&text)
		case f.clock:
			err = w.writeClock(&text, f.format)
		default:
			err = w.write(&text, f.format)
		}
		return text.String(), err
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

func (w namedOrder) plot(cmd *cobra.Command, to namedFile) error {
	simulate := func() (*graph.Trace, error) { return lib.UnitTrace(w.Schedule, w.shape) }
	trace, err := interrupt.Await(cmd.Context(), simulate)
	if err != nil {
		return err
	}
	render := func(out io.Writer) error {
		title, panel := picture.UnitTitle(trace, lib.Unit), picture.Panel{Trace: trace, Unit: lib.Unit}
		return picture.Timeline(out, pictureFormat(to.path), title, panel)
	}
	return to.draw(cmd, render)
}

// unknownOrderError explains why there is no compute order of a name.
func unknownOrderError(name string, err error) error {
	if configs.IsSearched(name) {
		return fmt.Errorf("%[1]s has no order before tasks have times: "+
			"psim run CONFIG --set schedule.name=%[1]s finds one", name)
	}
	if name == "fsdp" {
		return errors.New("fsdp is ddp with parallel.zero = 3: psim schedule ddp prints its order, " +
			"and psim run fsdp simulates it layer by layer")
	}
	if _, err := collective.Find(name); err == nil {
		return fmt.Errorf("%s is a collective, which has no compute order; psim run %s simulates one",
			name, collective.RingAllReduce)
	}
	if strings.ContainsAny(name, `/\.`) {
		return fmt.Errorf("%s: the name of an order's file ends in .csv", name)
	}
	return fmt.Errorf("%w%s", err, nearest.Suggest(name, schedules.Names()))
}

// shapeFlagError rewords an error about a setting of the shape as one about its flag.
func shapeFlagError(err error) error {
	flags := strings.NewReplacer(
		"remove virtual_stages", "remove --virtual", "remove group", "remove --group", "virtual_stages", "virtual",
	)
	return fmt.Errorf("--%s", strings.Replace(flags.Replace(err.Error()), " = ", " ", 1))
}

// write prints the order of every rank.
func (w namedOrder) write(out io.Writer, format string) error {
	switch format {
	case "csv":
		return w.order.WriteCSV(out)
	case "json":
		ranks := make([][]string, len(w.order))
		for r, actions := range w.order {
			ranks[r] = order.Cells(actions)
		}
		return w.writeJSON(out, "order", ranks)
	}
	width := len(fmt.Sprint(len(w.order) - 1))
	for r, line := range strings.Split(strings.TrimSuffix(w.order.String(), "\n"), "\n") {
		if _, err := fmt.Fprintf(out, "rank %*d: %s\n", width, r, line); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON prints the schedule, its size, and a view of its order under a key.
func (w namedOrder) writeJSON(out io.Writer, key string, view any) error {
	return files.WriteJSON(out, map[string]any{
		"schedule": w.Name, "stages": w.shape.Ranks, "virtual_stages": w.shape.Virtual,
		"microbatches": w.shape.Microbatches, key: view,
	})
}

// A cycleAction is an action of a clock cycle in JSON.
type cycleAction struct {
	Kind       string `json:"kind"`
	Microbatch int32  `json:"microbatch"`
	Stage      int32  `json:"stage"`
	Rank       int    `json:"rank"`
}

// writeClock prints the clock cycles of the order.
func (w namedOrder) writeClock(out io.Writer, format string) error {
	cycles, err := w.order.Cycles()
	if err != nil {
		return err
	}
	switch format {
	case "csv":
		return order.WriteCyclesCSV(out, cycles)
	case "text":
		return order.WriteCycles(out, cycles)
	}
	list := make([][]cycleAction, len(cycles))
	for i, c := range cycles {
		for _, p := range c {
			list[i] = append(list[i], cycleAction{p.Kind.String(), p.Microbatch, p.Stage, p.Rank})
		}
	}
	return w.writeJSON(out, "cycles", list)
}

// writeHangs prints whether the order runs to its end or hangs, with receives in both places where
// they may be, and with buffered and blocking sends.
func (w namedOrder) writeHangs(out io.Writer) error {
	variants := []struct {
		title string
		order func() (order.Order, error)
	}{
		{"every rank receives right before use:", w.order.WithLateReceives},
		{"every rank receives when it is sent (--messages):", w.order.WithMessages},
	}
	if w.order.HasMessages() {
		variants = variants[:1]
		variants[0].title = "messages where they are written:"
		variants[0].order = func() (order.Order, error) { return w.order, nil }
	}
	for _, v := range variants {
		o, err := v.order()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, v.title)
		for _, blocking := range []bool{false, true} {
			how := map[bool]string{false: "buffered", true: "blocking"}[blocking]
			verdict := "runs to its end"
			if err := o.Hang(blocking); err != nil {
				verdict = strings.ReplaceAll(err.Error(), "\n", "\n  ")
			}
			if _, err := fmt.Fprintf(out, "  %s sends: %s\n", how, verdict); err != nil {
				return err
			}
		}
	}
	return nil
}
