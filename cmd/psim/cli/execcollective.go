package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"psim/configs"
	"psim/exec/collectives"
	"psim/exec/session"
	"psim/internal/nearest"
	"psim/internal/units"
	"psim/reports"
	"psim/results"
	"psim/schedules/collective"
)

// collectiveFlags lists the flags that apply to a collective by itself.
var collectiveFlags = []string{
	"gpus", "devices", "backend", "share", "processes", "rank", "world-size", "master", "token-file",
	"cores-per-worker", "oversubscribe", "warmup", "repeats", "stall", "sizes", "json", "quiet",
}

// isCollective reports whether the arguments name a collective, to be run by itself.
func isCollective(args []string) bool {
	return len(args) == 1 && slices.Contains(collective.Names(), args[0])
}

// suggestCollective names a similar collective in the error for a name that is neither a file nor an
// example.
func suggestCollective(name string, err error) error {
	wrong := new(configs.Error)
	best, near := nearest.Word(name, collective.Names())
	if !near || !errors.As(err, &wrong) || wrong.Label != name || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%s: no such file, example or collective; did you mean %s?", name, best)
}

// checkCollectiveFlags refuses flags that do not apply to a collective by itself.
func checkCollectiveFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && !slices.Contains(collectiveFlags, f.Name) {
			err = fmt.Errorf("--%s: does not apply to a collective by itself, which takes --%s",
				f.Name, strings.Join(collectiveFlags, ", --"))
		}
	})
	return err
}

// largestSize bounds the tensor of a collective. Every device holds about four times as much.
const largestSize = 4 << 30

// parseSizes reads a range A-B, whose sizes grow by a factor of four up to B itself, or one size A.
func parseSizes(text string) (sizes []int64, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	if from == "" || to == "" || to[0] == '-' {
		return nil, fmt.Errorf("--sizes %s: must be two sizes with a dash between them, such as 8B-64MiB, or one", text)
	}
	least, err := units.ParseBytes(from)
	if err != nil {
		return nil, fmt.Errorf("--sizes %s: %w", text, err)
	}
	most, err := units.ParseBytes(to)
	if err != nil {
		return nil, fmt.Errorf("--sizes %s: %w", text, err)
	}
	switch {
	case least%collectives.NumberBytes != 0 || least <= 0:
		return nil, fmt.Errorf("--sizes %s: begins with %d bytes; numbers have %d bytes, so begin with a multiple, "+
			"such as 8B", text, least, collectives.NumberBytes)
	case most < least:
		return nil, fmt.Errorf("--sizes %s: ends before it begins; give the smaller size first, such as 8B-64MiB", text)
	case most > largestSize:
		return nil, fmt.Errorf("--sizes %s: must end at %v at most", text, units.Bytes(largestSize))
	}
	last := int64(most) / collectives.NumberBytes * collectives.NumberBytes
	for n := int64(least); n < last; n *= 4 {
		sizes = append(sizes, n)
	}
	return append(sizes, last), nil
}

// checkRanks returns the number of devices that a collective runs over.
func checkRanks(name string, gpus int) (int, error) {
	row, err := collective.Find(name)
	if err != nil {
		return 0, err
	}
	if gpus == 0 {
		gpus = 2
	}
	if gpus < 2 {
		return 0, fmt.Errorf("--gpus %d: a collective needs at least 2 devices", gpus)
	}
	if err := row.Legal(gpus); err != nil {
		return 0, fmt.Errorf("--gpus %s", strings.TrimPrefix(err.Error(), "ranks = "))
	}
	return gpus, nil
}

// runCollective runs a collective by itself.
func (f execFlags) runCollective(ctx context.Context, name string, std streams) error {
	sizes, err := parseSizes(f.sizes)
	if err != nil {
		return err
	}
	ranks, err := checkRanks(name, f.gpus)
	if err != nil {
		return err
	}
	progress := newProgress(std.err, f.quiet || f.json)
	check := func() error { return f.Measure.Devices.Check(ranks) }
	return f.inProcesses(ctx, ranks, check, func() error {
		timed, err := session.Collectives{
			Devices: f.Measure.Devices, Name: name, Ranks: ranks, Sizes: sizes,
			Warmup: f.Measure.Train.Warmup, Repeat: f.Measure.Repeats, Options: f.Measure.Train.Run,
			Stage: progress.show,
		}.Run(ctx)
		progress.clear()
		if len(timed.Sizes) == 0 {
			return err
		}
		write := func(w io.Writer) error { return reports.WriteNCCL(w, timed) }
		if f.json {
			write = timed.WriteJSON
		}
		return errors.Join(write(std.out), wrongNumbersError(name, timed.Sizes), err)
	})
}

// wrongNumbersError reports the first size that left wrong numbers.
func wrongNumbersError(name string, sizes []results.CollectiveSize) error {
	for _, s := range sizes {
		if s.Wrong > 0 {
			wrong := units.Plural(s.Wrong, "number")
			return failure{fmt.Errorf("%s of %v left %s wrong", name, units.Bytes(s.Bytes), wrong)}
		}
	}
	return nil
}
