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
	shape              graph.Shape
	format, plot       string
	messages, deadlock bool
	clock              bool
}

func newSchedule() *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "schedule NAME|FILE.csv",
		Short: "print the order of tasks in a schedule, without times",
		Long: `schedule prints the compute order of every rank. An action is
<stage><F, B, I or W><microbatch>: 2F0 is the forward of stage 2, microbatch 0.
The csv format is PyTorch's compute-only schedule notation, a row per rank; with
--messages it has SEND and RECV as well. A FILE.csv in either form is checked and
takes the place of a name; [schedule] file simulates and executes it.

--deadlock tells whether every rank gets to its end if it runs its actions one after
another: with buffered sends, and with sends that block until they are received. If
not, it says where every rank stands.

--clock prints clock cycles instead of ranks: the (microbatch, stage) pairs that run
in the same cycle, if every action takes one cycle and messages take none.`,
		Example: `  psim schedule 1f1b --stages 4 --microbatches 8
  psim schedule gpipe --stages 2 --microbatches 4 --format csv
  psim schedule interleaved-1f1b --stages 2 --microbatches 4 --virtual 2
  psim schedule gpipe --stages 3 --microbatches 4 --clock
  psim schedule zb-h1 --plot zb-h1.png
  psim schedule 1f1b --stages 2 --microbatches 4 --deadlock`,
		ValidArgs: schedules.Names(),
		Args:      exactly(1, "one NAME of a schedule ("+strings.Join(schedules.Names(), ", ")+") or FILE.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			w, err := interrupt.Await(cmd.Context(), func() (namedOrder, error) { return f.find(cmd, args[0]) })
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
	flags.IntVar(&f.shape.Group, "group", 0, "interleaved-1f1b: microbatches per round, as Megatron counts (default: equal rounds)")
	flags.StringVar(&f.format, "format", "text", "text, csv or json")
	flags.BoolVar(&f.messages, "messages", false, "with SEND and RECV, where PyTorch puts them")
	flags.BoolVar(&f.deadlock, "deadlock", false, "instead of the order, whether and where it hangs")
	flags.BoolVar(&f.clock, "clock", false, "instead of the order, the (microbatch, stage) pairs of every clock cycle")
	flags.Var((*named)(&f.plot), "plot", "also draw the order, every action of one unit (B of two), to a .png, .svg or .pdf")
}

func (f *scheduleFlags) check() error {
	switch {
	case !slices.Contains([]string{"text", "csv", "json"}, f.format):
		return fmt.Errorf("--format %s: use text, csv or json", f.format)
	case f.clock && (f.messages || f.deadlock):
		return errors.New("--clock: cannot be combined with --messages or --deadlock; cycles hold what is computed")
	case f.shape.Virtual < 1:
		return fmt.Errorf("--virtual %d: must be at least 1", f.shape.Virtual)
	case f.plot != "" && pictureFormat(f.plot) == "":
		return fmt.Errorf("--plot %s: the file must end in %s", f.plot, pictureEndings())
	}
	return ram.CheckTasks(2 * float64(f.shape.Ranks) * float64(f.shape.Microbatches) * float64(f.shape.Virtual))
}

// namedOrder holds an order to print, and the schedule and size that it is of.
type namedOrder struct {
	schedules.Schedule
	shape graph.Shape
	order order.Order
}

// find makes the order of a name, or reads that of a file.
func (f *scheduleFlags) find(cmd *cobra.Command, name string) (w namedOrder, err error) {
	if strings.HasSuffix(name, ".csv") {
		return f.read(cmd, name)
	}
	if w.Schedule, err = schedules.Find(name); err != nil {
		return w, unknownOrder(name, err)
	}
	if !w.Pipelined && !cmd.Flags().Changed("stages") {
		f.shape.Ranks = 1
	}
	w.shape = w.Sized(f.shape)
	if w.order, err = w.Order(f.shape, nil); err != nil {
		return w, flagError(err)
	}
	if f.messages {
		w.order, err = w.order.WithMessages()
	}
	return w, err
}

// read reads the order of a file, whose size is its own.
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
	if err == nil && f.messages && !w.order.HasMessages() {
		w.order, err = w.order.WithMessages()
	}
	return w, err
}

// write prints the order or what becomes of it, and draws it.
func (f *scheduleFlags) write(cmd *cobra.Command, w namedOrder) error {
	if f.plot != "" {
		if err := w.plot(cmd, f.plot); err != nil {
			return err
		}
	}
	text, err := interrupt.Await(cmd.Context(), func() (string, error) {
		var text strings.Builder
		if f.deadlock {
			err := w.writeHangs(&text)
			return text.String(), err
		}
		if f.clock {
			err := w.writeClock(&text, f.format)
			return text.String(), err
		}
		err := writeOrder(&text, f.format, w.Name, w.shape, w.order)
		return text.String(), err
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), text)
	return err
}

func (w namedOrder) plot(cmd *cobra.Command, path string) error {
	trace, err := interrupt.Await(cmd.Context(), func() (*graph.Trace, error) { return lib.UnitTrace(w.Schedule, w.shape) })
	if err != nil {
		return err
	}
	return writeOne(cmd, "plot", path, func(out io.Writer) error {
		return picture.Timeline(out, pictureFormat(path), picture.UnitTitle(trace, lib.Unit), picture.Panel{Trace: trace, Unit: lib.Unit})
	})
}

// unknownOrder returns the error for a name that has no compute order.
func unknownOrder(name string, err error) error {
	if configs.IsSearched(name) {
		return fmt.Errorf("%[1]s has no order before tasks have times: psim run CONFIG --set schedule.name=%[1]s finds one", name)
	}
	if name == "fsdp" {
		return errors.New("fsdp is ddp with parallel.zero = 3: psim schedule ddp prints its order, and psim run fsdp simulates it layer by layer")
	}
	if _, err := collective.Find(name); err == nil {
		return fmt.Errorf("%s is a collective, which has no compute order; psim run %s simulates one", name, collective.RingAllReduce)
	}
	if strings.ContainsAny(name, `/\.`) {
		return fmt.Errorf("%s: the name of an order's file ends in .csv", name)
	}
	return fmt.Errorf("%w%s", err, nearest.Suggest(name, schedules.Names()))
}

// flagError rewords an error about a setting as one about the flag.
func flagError(err error) error {
	flags := strings.NewReplacer("remove virtual_stages", "remove --virtual", "remove group", "remove --group", "virtual_stages", "virtual")
	return fmt.Errorf("--%s", strings.Replace(flags.Replace(err.Error()), " = ", " ", 1))
}

func writeOrder(w io.Writer, format, name string, shape graph.Shape, o order.Order) error {
	switch format {
	case "csv":
		return o.WriteCSV(w)
	case "json":
		return writeOrderJSON(w, name, shape, o)
	}
	width := len(fmt.Sprint(len(o) - 1))
	for r, line := range strings.Split(strings.TrimSuffix(o.String(), "\n"), "\n") {
		if _, err := fmt.Fprintf(w, "rank %*d: %s\n", width, r, line); err != nil {
			return err
		}
	}
	return nil
}

func writeOrderJSON(w io.Writer, name string, shape graph.Shape, o order.Order) error {
	ranks := make([][]string, len(o))
	for r, actions := range o {
		ranks[r] = order.Cells(actions)
	}
	return files.WriteJSON(w, map[string]any{
		"schedule": name, "stages": shape.Ranks, "virtual_stages": shape.Virtual,
		"microbatches": shape.Microbatches, "order": ranks,
	})
}

// writeHangs prints whether the order runs to its end, for what its messages
// may be.
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
