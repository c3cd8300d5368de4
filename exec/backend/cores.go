package backend

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"psim/internal/cores"
	"psim/internal/units"
)

// Unpinned says why devices are not kept on cores of their own although CoresPerWorker is set.
// It is "" if they are, or if CoresPerWorker is not set.
func (o Options) Unpinned() string {
	switch _, err := cores.Allowed(); {
	case o.CoresPerWorker == 0:
		return ""
	case o.CoresPerWorker > 1 && !o.xla():
		return fmt.Sprintf("a device of %d cores divides its matrix products among goroutines of gomlx, "+
			"which run on whatever cores are free: workers are not pinned", o.CoresPerWorker)
	case errors.Is(err, errors.ErrUnsupported):
		return "this system cannot keep a thread on a core: workers are not pinned"
	}
	return ""
}

// Pinned reports whether devices are kept on cores of their own.
func (o Options) Pinned() bool { return o.CoresPerWorker > 0 && o.Unpinned() == "" }

// xla reports whether the backend is XLA.
func (o Options) xla() bool { return strings.HasPrefix(o.Backend, "xla") }

// onCores reports whether the devices are known to be cores. Those of XLA are, if they have a number of them.
func (o Options) onCores() bool { return !o.xla() || o.CoresPerWorker > 0 }

// Settle completes the options with what follows from the plugin of the backend xla: its devices on
// cores have one each unless CoresPerWorker says more. Apart says that every device wants a process of
// its own, because those of one process share its threads.
func (o Options) Settle() (settled Options, apart bool, err error) {
	if !o.xla() || o.Share || !XLACompiled {
		return o, false, nil
	}
	plugin, err := o.plugin()
	if err != nil {
		return o, false, err
	}
	info, err := plugin.Inspect()
	switch {
	case err != nil:
		return o, false, err
	case info.Platform != CPUPlatform:
		return o, false, o.refuseCores(info)
	}
	o.CoresPerWorker = max(1, o.CoresPerWorker)
	return o, true, nil
}

// refuseCores refuses a number of cores for devices that are not cores.
func (o Options) refuseCores(info PluginInfo) error {
	if o.CoresPerWorker > 0 {
		return fmt.Errorf("cores per worker are of devices that are cores; those of the plugin are of the platform %s",
			info.Platform)
	}
	return nil
}

// Cores returns how many tasks can run at once on the cores of this machine; 0 is any number.
func (o Options) Cores() int { return o.coresOf(runtime.GOMAXPROCS(0)) }

// coresOf returns how many tasks can run at once on a number of cores.
func (o Options) coresOf(cores int) int {
	if !o.onCores() {
		return 0
	}
	return max(1, cores/max(1, o.CoresPerWorker))
}

// sharesThreads reports whether n devices of one process are known to compute with the same threads.
func (o Options) sharesThreads(n int) bool { return o.xla() && o.CoresPerWorker > 0 && n > 1 }

// checkCores refuses more devices than there are cores for.
func (o Options) checkCores(n, cores int) error {
	switch each := max(1, o.CoresPerWorker); {
	case n*each <= cores || o.Oversubscribe:
		return nil
	case each == 1:
		return fmt.Errorf("%s on %s: a device computes on a core of its own; "+
			"use at most %d, or --oversubscribe where times do not matter",
			units.Plural(n, "device"), units.Plural(cores, "core"), cores)
	default:
		return fmt.Errorf("%s of %d cores each on %s: "+
			"use fewer devices or cores, or --oversubscribe where times do not matter",
			units.Plural(n, "device"), each, units.Plural(cores, "core"))
	}
}

// pin keeps every device on a core of its own, as far as there are enough. The first ones
// belong to devices of other processes.
func pin(devices []*LocalDevice, first int) error {
	allowed, err := cores.Allowed()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	for rank, d := range devices {
		if err == nil {
			err = d.PinTo(allowed[(first+rank)%len(allowed)])
		}
	}
	if err != nil {
		err = fmt.Errorf("pinning devices to cores: %w; leave the cores per worker to the system", err)
	}
	return err
}

// confine keeps the process on the cores of its n devices until leave is called.
func (o Options) confine(n int, at devicePlace) (leave func(), err error) {
	allowed, err := cores.Allowed()
	if err == nil {
		leave, err = cores.Confine(coreBlocks(allowed, at.before, n, o.CoresPerWorker))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return func() {}, nil
	}
	return leave, err
}

// coreBlocks lists the cores of n devices that have a block of them each, behind the blocks of other devices. If there
// are not enough, it begins again.
func coreBlocks(allowed []int, first, n, each int) (list []int) {
	blocks := max(1, len(allowed)/each)
	for d := range n {
		begin := (first + d) % blocks * each
		list = append(list, allowed[begin:min(begin+each, len(allowed))]...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
