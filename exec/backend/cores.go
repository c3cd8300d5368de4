package backend

import (
	"errors"
	"fmt"
	"runtime"
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
	case o.CoresPerWorker > 1:
		return fmt.Sprintf("a device of %d cores divides its matrix products among goroutines of gomlx, "+
			"which run on whatever cores are free: workers are not pinned", o.CoresPerWorker)
	case errors.Is(err, errors.ErrUnsupported):
		return "this system cannot keep a thread on a core: workers are not pinned"
	}
	return ""
}

// Pinned reports whether devices are kept on cores of their own.
func (o Options) Pinned() bool { return o.CoresPerWorker == 1 && o.Unpinned() == "" }

// Cores returns how many tasks can run at once on the cores of this machine; 0 is any number.
func (o Options) Cores() int { return o.coresOf(runtime.GOMAXPROCS(0)) }

// coresOf returns how many tasks can run at once on a number of cores.
func (o Options) coresOf(cores int) int {
	if strings.HasPrefix(o.Backend, "xla") {
		return 0
	}
	return max(1, cores/max(1, o.CoresPerWorker))
}

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
