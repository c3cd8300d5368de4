package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/configs"
	"psim/internal/interrupt"
	"psim/internal/units"
)

// targetHelp is what the manual of run says about the name of a CONFIG.
const targetHelp = `CONFIG is looked up as a file, an example (psim list examples) and a preset
(psim list models); model:NAME is always the preset. A preset, or the config.json of a
network, has no plan: psim assumes the one that psim show NAME prints, replicas that
each train a sample, sharded as by FSDP if there are several. --devices N makes as many
replicas as N devices have room for, with the settings of --set.`

// configArgument says what CONFIG is, for errors.
const configArgument = "a file or the name of an example or preset"

// targetFlags holds the flags that say where a configuration is to run that names no machine.
type targetFlags struct {
	target configs.Target
	site   string
}

// register declares the flags, apart from --devices.
func (f *targetFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.target.Device, "device", "", "the device, for a CONFIG without a machine (psim list devices)")
	flags.IntVar(&f.target.DevicesPerNode, "devices-per-node", 0, "how many of them are in a node (default: all)")
	flags.StringVar(&f.target.Network, "network", "", "the link between nodes (psim list links)")
	flags.StringVar(&f.site, "site", "", "what your cluster's runs say of it: a file of psim calibrate --runs")
	completeNames(cmd, map[string]func() []string{
		"device":  func() []string { return configs.Choices("machine.device") },
		"network": func() []string { return configs.Choices("machine.network") },
	})
}

// registerDevices declares --devices for verbs that run a plan.
func (f *targetFlags) registerDevices(flags *pflag.FlagSet) {
	flags.IntVar(&f.target.Devices, "devices", 0, "number of devices, for a CONFIG without a plan (default 1)")
}

// check refuses numbers below 1.
func (f targetFlags) check(flags *pflag.FlagSet) error {
	for _, number := range []struct {
		flag  string
		value int
	}{{"devices", f.target.Devices}, {"devices-per-node", f.target.DevicesPerNode}} {
		if flags.Changed(number.flag) && number.value < 1 {
			return fmt.Errorf("--%s %d: must be at least 1", number.flag, number.value)
		}
	}
	return nil
}

// load reads CONFIG for the target. A named pipe may wait for its writer until the context ends.
func (f targetFlags) load(ctx context.Context, path string, sets []string) (*configs.Config, error) {
	if f.site != "" {
		sets = append(slices.Clone(sets), "machine.site="+f.site)
	}
	read := func() (*configs.Config, error) { return configs.LoadOn(path, f.target, sets...) }
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return read()
	}
	return interrupt.Await(ctx, read)
}

// loadPlan does what load does for a verb that runs the plan of CONFIG: it refuses a number of
// devices for a CONFIG that says itself how many there are.
func (f targetFlags) loadPlan(ctx context.Context, path string, sets []string) (*configs.Config, error) {
	c, err := f.load(ctx, path, sets)
	if n := f.target.Devices; err == nil && n > 0 && c.HasPlan() {
		return nil, fmt.Errorf("--devices %d: %s has a plan of its own; --set parallel.data=N changes its replicas, "+
			"and psim search %[2]s --devices %[1]d finds the best plan", n, path)
	}
	return c, err
}

// checkDevices refuses settings that make another number of devices than --devices.
func (f targetFlags) checkDevices(devices int) error {
	if n := f.target.Devices; n > 0 && n != devices {
		return fmt.Errorf("--devices %d: the settings make a plan for %s; leave one of the two out",
			n, units.Plural(devices, "device"))
	}
	return nil
}
