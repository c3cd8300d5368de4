package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/internal/units"
	"psim/schedules"
)

// defaultLinkFile is where the link of psim calibrate --nccl is written to.
const defaultLinkFile = "my-link.toml"

// ncclCalibration is a link that was fitted to the output of nccl-tests. Errors
// are absolute fractions of the measured times: of all sizes by the fit to all,
// and, held out, of every second size by the fit to the others.
type ncclCalibration struct {
	File         string         `json:"file"`
	Command      string         `json:"command"`
	Inputs       []string       `json:"inputs"`
	Ranges       []ncclRange    `json:"ranges"`
	Link         calibratedLink `json:"link"`
	Sizes        int            `json:"sizes"` // times that were read
	MeanError    float64        `json:"mean_error"`
	WorstError   float64        `json:"worst_error"`
	HeldOutError *float64       `json:"held_out_error,omitempty"` // mean; needs four sizes of a number of ranks

	link costmodel.Link
}

// ncclRange is one range of sizes of one number of ranks.
type ncclRange struct {
	Ranks     int     `json:"ranks"`
	From      int64   `json:"from_bytes"`
	Call      float64 `json:"call_s"`
	Bandwidth float64 `json:"bandwidth_bytes_per_s"`
}

// runNCCL fits a link to files and writes it.
func (f calibrateFlags) runNCCL(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 || len(f.sets) > 0 || f.samples != nil {
		return errors.New("--nccl fits a link to files and measures nothing here; leave out CONFIG, --set and --samples")
	}
	if err := f.check(); err != nil {
		return err
	}
	var timings []costmodel.AllReduceTiming
	for _, path := range f.nccl {
		list, err := readNCCL(path)
		if err != nil {
			return fmt.Errorf("--nccl %w", err)
		}
		timings = append(timings, list...)
	}
	found, err := fitNCCL(timings)
	if err != nil {
		return fmt.Errorf("--nccl: %w", err)
	}
	found.File, found.Inputs, found.Command = f.out, f.nccl, "psim calibrate"
	for _, path := range f.nccl {
		found.Command += " --nccl " + quoted(path)
	}
	found.Command += " --out " + quoted(f.out)
	render := func(w io.Writer) error { return configs.WriteLink(w, found.link, found.comment()) }
	if err := writeFiles(ctx, []file{{f.out, render}}); err != nil {
		return failure{err}
	}
	if f.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(found)
	}
	return found.write(stdout)
}

func readNCCL(path string) ([]costmodel.AllReduceTiming, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, reason(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, reason(err))
	}
	return costmodel.ReadNCCLTests(path, data)
}

// fitNCCL fits a link to all timings, and says how far off it is.
func fitNCCL(timings []costmodel.AllReduceTiming) (*ncclCalibration, error) {
	ranges, err := costmodel.FitAllReduce(timings)
	if err != nil {
		return nil, err
	}
	l := costmodel.FitLink(ranges)
	l.Algorithm = costmodel.Auto
	c := &ncclCalibration{
		Sizes: len(timings), link: l,
		Link: calibratedLink{time.Duration(l.Latency).Seconds(), float64(l.Bandwidth), time.Duration(l.Call).Seconds(), float64(l.Collective)},
	}
	for _, r := range ranges {
		c.Ranges = append(c.Ranges, ncclRange{r.Ranks, int64(r.From), time.Duration(r.Call).Seconds(), float64(r.Bandwidth)})
	}
	c.MeanError, c.WorstError = ncclErrors(l, timings)
	even, odd := halves(timings)
	if len(odd) == 0 {
		return c, nil
	}
	half, err := costmodel.FitAllReduce(even)
	if err != nil {
		return nil, err
	}
	heldOut, _ := ncclErrors(costmodel.FitLink(half), odd)
	c.HeldOutError = &heldOut
	return c, nil
}

// halves are every second size, and the others, of the numbers of ranks that
// have at least four.
func halves(timings []costmodel.AllReduceTiming) (even, odd []costmodel.AllReduceTiming) {
	const least = 4
	byRanks := map[int][]costmodel.AllReduceTiming{}
	for _, t := range timings {
		byRanks[t.Ranks] = append(byRanks[t.Ranks], t)
	}
	for _, list := range byRanks {
		if len(list) < least {
			continue
		}
		slices.SortStableFunc(list, func(a, b costmodel.AllReduceTiming) int { return int(min(1, max(-1, a.Bytes-b.Bytes))) })
		for i, t := range list {
			if i%2 == 0 {
				even = append(even, t)
			} else {
				odd = append(odd, t)
			}
		}
	}
	return even, odd
}

// ncclErrors are the mean and the worst absolute error of a link.
func ncclErrors(l costmodel.Link, timings []costmodel.AllReduceTiming) (mean, worst float64) {
	for _, t := range timings {
		off := math.Abs(float64(costmodel.CollectiveTime(schedules.AllReduce, l, t.Ranks, t.Bytes))/float64(t.Time) - 1)
		mean, worst = mean+off/float64(len(timings)), max(worst, off)
	}
	return mean, worst
}

// write prints the fit, and what to do next.
func (c *ncclCalibration) write(w io.Writer) error {
	fmt.Fprintf(w, "all-reduces: %d times from %s\n\n", c.Sizes, strings.Join(c.Inputs, ", "))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ranks\tfrom\tcall\tbus bandwidth\t")
	for _, r := range c.Ranges {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t\n", r.Ranks, units.Bytes(r.From), span(r.Call), units.FormatRate(r.Bandwidth))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nother numbers of ranks  %s, %s for a call and %s for a step\n", units.FormatRate(c.Link.Collective), span(c.Link.Call), span(c.Link.Latency))
	fmt.Fprintf(w, "error                   mean %.1f %%, worst %.1f %%", 100*c.MeanError, 100*c.WorstError)
	if c.HeldOutError != nil {
		fmt.Fprintf(w, "; fitted to every second size, %.1f %% on the others", 100**c.HeldOutError)
	}
	_, err := fmt.Fprintf(w, "\n\nwrote %s; use it with\n  psim run CONFIG --set %s --set machine.device=DEVICE\nwhere all devices are in one node, and otherwise with file = %q in [machine]\n", c.File, quoted("machine.file="+c.File), c.File)
	return err
}

// comment heads the file.
func (c *ncclCalibration) comment() []string {
	return []string{
		fmt.Sprintf("A link, fitted to %d all-reduces of nccl-tests by", c.Sizes),
		"  " + c.Command,
		fmt.Sprintf("Off by %.1f %% on average, %.1f %% at worst. Name the device beside this file.", 100*c.MeanError, 100*c.WorstError),
	}
}
