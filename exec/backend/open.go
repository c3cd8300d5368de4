package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"psim/internal/units"
)

// Options say which devices to open.
type Options struct {
	// Backend names the backend: "go" (or ""), gomlx's own, one core for a device; "xla", with
	// the first plugin that is found; or "xla:" and the absolute path of a plugin.
	Backend string
	// Oversubscribe allows more Go devices than the machine has cores. Their times are then not
	// comparable.
	Oversubscribe bool
	// CoresPerWorker is how many cores a device computes on. With 1 a Go device stays on a
	// core of its own, if the system allows that (see Unpinned). With 0 it uses one core as
	// well, but the system chooses which. XLA's devices on cores stay on that many while they are open,
	// and with them the whole process; with 0 they use all (see Settle).
	CoresPerWorker int
	// Share puts all XLA devices on the first GPU, each with a client and a part of the memory
	// of its own, or in one process on all cores. Their times are then not comparable with those on
	// devices of their own.
	Share bool
}

// Open opens n devices and checks that numbers can be copied between every pair. Close them
// when done.
func Open(n int, o Options) ([]*LocalDevice, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d devices: there must be at least 1", n)
	}
	return o.openPlaced(n, devicePlace{all: n})
}

// openPlaced opens n devices that share their cores, or GPUs, with those of other processes.
func (o Options) openPlaced(n int, at devicePlace) ([]*LocalDevice, error) {
	devices, err := o.open(n, at)
	if err != nil {
		return nil, err
	}
	if err := SelfTest(devices); err != nil {
		Close(devices)
		return nil, err
	}
	return devices, nil
}

// Check refuses n devices that cannot be opened on this machine, as far as that is known
// without opening them.
func (o Options) Check(n int) error {
	name, file, hasFile := strings.Cut(o.Backend, ":")
	switch isGo := o.Backend == "" || o.Backend == "go"; {
	case isGo && o.Share:
		return errors.New("only devices of the backend xla can be shared: one of the backend go has a core of its own")
	case isGo:
		return o.checkCores(n, runtime.GOMAXPROCS(0))
	case name == "xla" && o.CoresPerWorker > 0 && o.Share:
		return errors.New("devices that are shared have no cores of their own: leave one of the two out")
	case name != "xla":
		return fmt.Errorf("--backend %s: unknown backend; use go, xla or xla:/absolute/path/of/plugin.so", o.Backend)
	case !XLACompiled:
		_, err := OpenXLA(Plugin{}, ClientOptions{})
		return fmt.Errorf("backend %s: %w", o.Backend, err)
	case hasFile && !filepath.IsAbs(file):
		return fmt.Errorf(
			"backend %q: the path of a plugin must be absolute, as in xla:/absolute/path/of/plugin.so", o.Backend)
	case o.CoresPerWorker > 0:
		return o.checkCores(n, runtime.GOMAXPROCS(0))
	}
	return nil
}

// open opens n devices of the backend.
func (o Options) open(n int, at devicePlace) ([]*LocalDevice, error) {
	if err := o.Check(at.all); err != nil {
		return nil, err
	}
	if !o.xla() {
		return o.openGo(n, at)
	}
	plugin, err := o.plugin()
	switch {
	case err != nil:
		return nil, err
	case o.Share:
		return openShared(n, at, plugin)
	case o.CoresPerWorker > 0:
		return o.openOnCores(n, at, plugin)
	}
	return openAll(n, at, plugin)
}

// plugin finds the plugin of the backend xla.
func (o Options) plugin() (Plugin, error) {
	_, file, _ := strings.Cut(o.Backend, ":")
	return PluginSearch{Getenv: os.Getenv}.Find(file)
}

// openOnCores opens n devices of XLA on cores of their own, to which it keeps the process before it loads the
// plugin, so that the plugin makes a thread for each of them and no more.
func (o Options) openOnCores(n int, at devicePlace, plugin Plugin) (devices []*LocalDevice, err error) {
	leave, err := o.confine(n, at)
	if err != nil {
		return nil, err
	}
	info, err := plugin.Inspect()
	if err == nil && info.Platform != CPUPlatform {
		err = o.refuseCores(info)
	}
	if err == nil {
		devices, err = openAll(n, at, plugin)
	}
	if err != nil {
		leave()
		return nil, err
	}
	devices[0].leave = sync.OnceFunc(leave)
	return devices, nil
}

// openGo opens n devices of the Go backend, and pins them if that is asked for.
func (o Options) openGo(n int, at devicePlace) ([]*LocalDevice, error) {
	devices, err := openEach(n, "", func() (*LocalDevice, error) { return OpenGo(o.CoresPerWorker) })
	if err == nil && o.CoresPerWorker == 1 {
		if err = pin(devices, at.before); err != nil {
			Close(devices)
		}
	}
	return devices, err
}

// openEach opens n devices one by one. Errors say where they are.
func openEach(n int, where string, open func() (*LocalDevice, error)) ([]*LocalDevice, error) {
	var devices []*LocalDevice
	for rank := range n {
		d, err := open()
		if err != nil {
			Close(devices)
			return nil, fmt.Errorf("device %d%s: %w", rank, where, err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// openAll opens the first n devices of a plugin, or those behind the devices of other
// processes. A client of CPUs has a few devices in every process, so further ones are of further
// clients.
func openAll(n int, at devicePlace, plugin Plugin) ([]*LocalDevice, error) {
	info, err := plugin.Inspect()
	if err != nil {
		return nil, err
	}
	onCPU := info.Platform == CPUPlatform
	var options ClientOptions
	if at.all > n && !onCPU { // others belong to other processes
		for i := range n {
			options.Visible = append(options.Visible, at.before+i)
		}
	}
	devices, err := OpenXLA(plugin, options)
	for err == nil && onCPU && len(devices) < n {
		var more []*LocalDevice
		more, err = OpenXLA(plugin, options)
		devices = append(devices, more...)
	}
	if err == nil && len(devices) < n {
		err = fmt.Errorf("%s, but plugin %s has %d: "+
			"use at most %d, or share the first among all where times do not matter",
			units.Plural(n, "device"), plugin.File, len(devices), len(devices))
	}
	if err != nil {
		Close(devices)
		return nil, err
	}
	if onCPU { // whose clients stay
		Close(devices[n:])
	}
	return devices[:n], nil
}

// sharedMemory bounds the part of a GPU's memory that devices share. CUDA itself needs the
// rest, once for every client.
const sharedMemory = 0.8

// openShared opens n clients that see only the first device.
func openShared(n int, at devicePlace, plugin Plugin) ([]*LocalDevice, error) {
	return openEach(n, fmt.Sprintf(" of %d on one GPU", n), func() (*LocalDevice, error) {
		options := ClientOptions{Visible: []int{0}, MemoryFraction: sharedMemory / float64(at.all)}
		opened, err := OpenXLA(plugin, options)
		if err != nil {
			return nil, err
		}
		for _, d := range opened[1:] { // of a client of CPUs, which stays, with its programs, once all are closed
			d.Close()
		}
		return opened[0], nil
	})
}

// Close closes devices; nil ones belong to other processes. Release their tensors first.
func Close(devices []*LocalDevice) {
	for _, d := range devices {
		if d != nil {
			d.Close()
		}
	}
}

// SelfTest sends known numbers from every device to every other one and back.
func SelfTest(devices []*LocalDevice) error {
	for i, from := range devices {
		for j, to := range devices {
			if i == j {
				continue
			}
			if err := copyThereAndBack(from, to, int32(i*len(devices)+j)); err != nil {
				return fmt.Errorf("copying from device %d to device %d and back: %w", i, j, err)
			}
		}
	}
	return nil
}

// copyThereAndBack copies numbers to a device and back, and compares them.
func copyThereAndBack(from, to *LocalDevice, seed int32) error {
	pattern := make([]int32, 1009)
	for i := range pattern {
		pattern[i] = int32(i)*7919 + seed
	}
	first, err := Upload(from, pattern, len(pattern))
	if err != nil {
		return err
	}
	defer first.Release()
	there, err := first.CopyTo(to)
	if err != nil {
		return err
	}
	defer there.Release()
	back, err := there.CopyTo(from)
	if err != nil {
		return err
	}
	defer back.Release()
	values, err := Read[int32](back)
	if err == nil && !slices.Equal(values, pattern) {
		err = fmt.Errorf("%d numbers came back changed", len(pattern))
	}
	return err
}

// Comparable reports whether times on n devices of a number of cores are comparable: no two
// devices share a core or a GPU.
func (o Options) Comparable(n, cores int) bool {
	return !o.Share && (!o.onCores() || n*max(1, o.CoresPerWorker) <= cores)
}
