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

// ofCollectives lists the flags that a collective by itself takes.
var ofCollectives = []string{"gpus", "devices", "backend", "share", "processes", "cores-per-worker", "oversubscribe", "warmup", "repeats", "stall", "sizes", "json", "quiet"}

// isCollective reports whether the arguments name a collective, to be run by itself.
func isCollective(args []string) bool {
	return len(args) == 1 && slices.Contains(collective.Names(), args[0])
}

// orCollective names the collective that was meant by what is no file and no example.
func orCollective(name string, err error) error {
	wrong := new(configs.Error)
	best, near := nearest.Word(name, collective.Names())
	if !near || !errors.As(err, &wrong) || wrong.Label != name || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%s: no such file, example or collective; did you mean %s?", name, best)
}

// onlyCollective refuses flags that have no meaning for a collective by itself.
func onlyCollective(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && !slices.Contains(ofCollectives, f.Name) {
			err = fmt.Errorf("--%s: has no meaning for a collective by itself, which takes --%s", f.Name, strings.Join(ofCollectives, ", --"))
		}
	})
	return err
}

// largestSize bounds what every device holds of a tensor, some four times.
const largestSize = 4 << 30

// parseSizes reads A-B, every size four times the one before and the last B, or A.
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
		return nil, fmt.Errorf("--sizes %s: begins with %d bytes; numbers have %d bytes, so begin with a multiple, such as 8B", text, least, collectives.NumberBytes)
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

// checkRanks finds over how many devices a collective is run.
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
func runCollective(ctx context.Context, flags *pflag.FlagSet, name string, f execFlags, stdout, stderr io.Writer) error {
	if err := onlyCollective(flags); err != nil {
		return err
	}
	sizes, err := parseSizes(f.sizes)
	if err != nil {
		return err
	}
	ranks, err := checkRanks(name, f.gpus)
	if err != nil {
		return err
	}
	progress := newProgress(stderr, f.quiet || f.json)
	check := func() error { return f.Measure.Devices.Check(ranks) }
	return f.inProcesses(ctx, ranks, check, func() error {
		found, err := session.Collectives{
			Devices: f.Measure.Devices, Name: name, Ranks: ranks, Sizes: sizes, Warmup: f.Measure.Train.Warmup, Repeat: f.Measure.Repeats, Options: f.Measure.Train.Run,
			Stage: progress.tell,
		}.Run(ctx)
		progress.clear()
		if len(found.Sizes) == 0 {
			return err
		}
		write := func(w io.Writer) error { return reports.WriteNCCL(w, found) }
		if f.json {
			write = found.WriteJSON
		}
		return errors.Join(write(stdout), anyWrong(name, found.Sizes), err)
	})
}

// anyWrong reports the first size that left wrong numbers.
func anyWrong(name string, sizes []results.CollectiveSize) error {
	for _, s := range sizes {
		if s.Wrong > 0 {
			return failure{fmt.Errorf("%s of %v left %s wrong", name, units.Bytes(s.Bytes), units.Plural(s.Wrong, "number"))}
		}
	}
	return nil
}
