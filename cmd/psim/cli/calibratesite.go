package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/spf13/cobra"

	lib "psim"
	"psim/calibrate/site"
	"psim/configs"
	"psim/internal/files"
	"psim/intervals"
	"psim/reports"
)

// runSite fits a site to the runs of a file.
func (f calibrateFlags) runSite(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	if len(args)+len(f.sets)+len(f.samples)+len(f.nccl) > 0 || given("engine") || given("repeats") {
		return errors.New("--runs fits a site to measured runs and measures nothing here; leave out CONFIG, --set, " +
			"--samples, --repeats, --nccl and --engine")
	}
	if !given("out") {
		f.out = defaultSiteFile
	}
	if f.runs == "" {
		return errors.New(`--runs "": is an empty name; name a CSV file with the columns config and step_time`)
	}
	if f.out == "" || f.out == "-" {
		return fmt.Errorf("--out %s: name a file; calibrate writes the site nowhere else", f.out)
	}
	if err := f.checkInputs([]string{f.runs}); err != nil {
		return err
	}
	if err := f.file().check(); err != nil {
		return err
	}
	wrong := func(err error) error { return fmt.Errorf("--runs %s: %w", f.runs, err) }
	runs, err := f.readRuns()
	if err != nil {
		return wrong(err)
	}
	p, err := newSitePredictor(cmd, runs)
	if err != nil {
		return wrong(err)
	}
	spread := intervals.Published().All()
	fit, err := site.New(runs, p.predict, site.Prior{Between: spread.Between, Within: spread.Within})
	if err != nil {
		return wrong(err)
	}
	fit.Device, fit.Stack = only(p.devices), only(p.stacks)
	render := func(w io.Writer) error { return fit.WriteTOML(w, p.spread(), f.runs) }
	unsaved := failed(f.file().write(cmd.Context(), render))
	next := "psim run " + reports.ShellWord(runs[0].Config) + " --set " + reports.ShellWord("machine.site="+f.out)
	if unsaved != nil {
		next = ""
	}
	if f.json {
		return errors.Join(fit.WriteJSON(streamsOf(cmd).out), unsaved)
	}
	return errors.Join(fit.WriteText(streamsOf(cmd).out, f.runs, next), unsaved)
}

// readRuns reads the file of runs.
func (f calibrateFlags) readRuns() ([]site.RunOfSite, error) {
	file, err := os.Open(f.runs)
	if err != nil {
		return nil, errors.New(files.Reason(err))
	}
	defer file.Close()
	return site.Read(file)
}

// A sitePredictor predicts the runs of a site with other constants.
type sitePredictor struct {
	cmd             *cobra.Command
	configs         []*configs.Config
	devices, stacks map[string]bool // of all runs
}

// newSitePredictor loads the configurations of runs.
func newSitePredictor(cmd *cobra.Command, runs []site.RunOfSite) (p sitePredictor, err error) {
	p = sitePredictor{cmd: cmd, devices: map[string]bool{}, stacks: map[string]bool{}}
	for _, r := range runs {
		c, err := configs.Load(r.Config, r.Sets...)
		switch {
		case err != nil:
		case !c.Defined("model"):
			err = fmt.Errorf("%s: has no [model]; a site's constants price networks", r.Config)
		case c.Machine.Site != "":
			err = fmt.Errorf("%s: has machine.site = %q; a site is fitted from the catalog's constants: "+
				"leave it out", r.Config, c.Machine.Site)
		}
		if err != nil {
			return p, fmt.Errorf("line %d: %w", r.Line, err)
		}
		p.configs = append(p.configs, c)
	}
	return p, nil
}

// predict predicts a run with constants times the exponentials of logs, where the run does not give them.
func (p sitePredictor) predict(run int, logs []float64) (float64, error) {
	c := p.configs[run]
	from := map[string]float64{"machine.spread": c.Machine.Spread}
	var sets []string
	for i, key := range site.Keys {
		base, spread := from[key]
		if !spread {
			base = 1
		}
		if logs[i] == 0 || c.Defined(key) || key == site.Keys[0] && !c.Defined("machine.network") {
			continue
		}
		sets = append(sets, fmt.Sprintf("%s=%g", key, base*math.Exp(logs[i])))
	}
	var made *lib.Prediction
	c, err := c.With(sets...)
	if err == nil {
		made, err = lib.Estimate(p.cmd.Context(), c)
	}
	if err != nil {
		return 0, err
	}
	p.devices[made.Result.Device], p.stacks[made.Result.Stack] = true, true
	return made.Result.StepTime, nil
}

// only returns the name in a set of one, and "" otherwise.
func only(names map[string]bool) string {
	if len(names) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(names))[0]
}

// spread returns the catalog's machine.spread of the runs.
func (p sitePredictor) spread() float64 { return p.configs[0].Machine.Spread }
