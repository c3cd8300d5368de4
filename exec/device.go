package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"psim/exec/programs"
	"psim/internal/units"
)

// DeviceOptions say which devices to open.
type DeviceOptions struct {
	// Backend is what computes: "go" (also ""), gomlx's own, one core per
	// device; "xla", with the first plugin that is found; or "xla:" and a
	// plugin's absolute path.
	Backend string
	// Oversubscribe allows more Go devices than the machine has cores. Their
	// times are then not comparable.
	Oversubscribe bool
	// CoresPerWorker is how many cores a Go device computes on. 1 keeps it on one of its
	// own, where the system can (see Unpinned); 0 is one as well, wherever the system
	// puts it.
	CoresPerWorker int
	// Share puts all XLA devices on the first GPU, each with a client and a
	// part of the memory of its own. Their times are then not comparable with
	// those of GPUs.
	Share bool
}

// OpenDevices opens n devices and checks that numbers can be copied between
// every pair. Close them when done.
func OpenDevices(n int, o DeviceOptions) ([]*programs.Device, error) {
	if n < 1 {
		return nil, fmt.Errorf("%d devices: there must be at least 1", n)
	}
	return o.openAt(n, place{all: n})
}

// openAt opens n devices that share their cores, or GPUs, with those of other processes.
func (o DeviceOptions) openAt(n int, at place) ([]*programs.Device, error) {
	devices, err := o.open(n, at)
	if err != nil {
		return nil, err
	}
	if err := SelfTest(devices); err != nil {
		CloseDevices(devices)
		return nil, err
	}
	return devices, nil
}

// Check refuses n devices that cannot be opened on this machine, as far as that is known
// without opening them.
func (o DeviceOptions) Check(n int) error {
	name, file, hasFile := strings.Cut(o.Backend, ":")
	switch isGo := o.Backend == "" || o.Backend == "go"; {
	case isGo && o.Share:
		return errors.New("only devices of the backend xla can be shared: one of the backend go has a core of its own")
	case isGo:
		return o.checkCores(n, runtime.GOMAXPROCS(0))
	case name == "xla" && o.CoresPerWorker > 0:
		return errors.New("cores per worker are of the backend go; those of the backend xla are GPUs")
	case name != "xla":
		return fmt.Errorf("--backend %s: unknown backend; use go, xla or xla:/absolute/path/of/plugin.so", o.Backend)
	case !programs.XLACompiled:
		_, err := programs.OpenXLA(programs.Plugin{}, programs.ClientOptions{})
		return fmt.Errorf("backend %s: %w", o.Backend, err)
	case hasFile && !filepath.IsAbs(file):
		return fmt.Errorf("backend %q: the path of a plugin must be absolute, as in xla:/absolute/path/of/plugin.so", o.Backend)
	}
	return nil
}

func (o DeviceOptions) open(n int, at place) ([]*programs.Device, error) {
	if err := o.Check(at.all); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(o.Backend, "xla") {
		return o.openGo(n, at)
	}
	_, file, _ := strings.Cut(o.Backend, ":")
	plugin, err := programs.Search{Getenv: os.Getenv}.Find(file)
	if err != nil {
		return nil, err
	}
	if o.Share {
		return shareFirst(n, at, plugin)
	}
	return openAll(n, at, plugin)
}

func (o DeviceOptions) openGo(n int, at place) ([]*programs.Device, error) {
	devices, err := openEach(n, "", func() (*programs.Device, error) { return programs.OpenGo(o.CoresPerWorker) })
	if err == nil && o.CoresPerWorker == 1 {
		if err = pin(devices, at.before); err != nil {
			CloseDevices(devices)
		}
	}
	return devices, err
}

// openEach opens n devices one by one, of which an error says where they are.
func openEach(n int, where string, open func() (*programs.Device, error)) ([]*programs.Device, error) {
	var devices []*programs.Device
	for rank := range n {
		d, err := open()
		if err != nil {
			CloseDevices(devices)
			return nil, fmt.Errorf("device %d%s: %w", rank, where, err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func openAll(n int, at place, plugin programs.Plugin) ([]*programs.Device, error) {
	var options programs.ClientOptions
	if at.all > n { // the others are of other processes
		for i := range n {
			options.Visible = append(options.Visible, at.before+i)
		}
	}
	devices, err := programs.OpenXLA(plugin, options)
	if err != nil {
		return nil, err
	}
	if len(devices) < n {
		CloseDevices(devices)
		return nil, fmt.Errorf("%s, but plugin %s has %d: use at most %d, or share the first among all where times do not matter", units.Plural(n, "device"), plugin.File, len(devices), len(devices))
	}
	return devices[:n], nil
}

// sharedMemory says which part of a GPU's memory devices share. The rest is
// for what CUDA itself needs, once per client.
const sharedMemory = 0.8

// shareFirst opens n clients that see the first device only.
func shareFirst(n int, at place, plugin programs.Plugin) ([]*programs.Device, error) {
	return openEach(n, fmt.Sprintf(" of %d on one GPU", n), func() (*programs.Device, error) {
		opened, err := programs.OpenXLA(plugin, programs.ClientOptions{Visible: []int{0}, MemoryFraction: sharedMemory / float64(at.all)})
		if err != nil {
			return nil, err
		}
		return opened[0], nil
	})
}

// CloseDevices ends the backends. Tensors on them must be released before.
func CloseDevices(devices []*programs.Device) {
	for _, d := range devices {
		if d != nil { // one of another process
			d.Close()
		}
	}
}

// SelfTest sends known numbers from every device to every other and back.
func SelfTest(devices []*programs.Device) error {
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

func copyThereAndBack(from, to *programs.Device, seed int32) error {
	pattern := make([]int32, 1009)
	for i := range pattern {
		pattern[i] = int32(i)*7919 + seed
	}
	first, err := programs.Upload(from, pattern, len(pattern))
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
	values, err := programs.Read[int32](back)
	if err == nil && !slices.Equal(values, pattern) {
		err = fmt.Errorf("%d numbers came back changed", len(pattern))
	}
	return err
}

// Comparable reports whether times measured on n such devices are those of
// devices of their own: none shares a core or a GPU with another.
func Comparable(n int, o DeviceOptions) bool { return o.comparable(n, runtime.GOMAXPROCS(0)) }

func (o DeviceOptions) comparable(n, cores int) bool {
	return !o.Share && (strings.HasPrefix(o.Backend, "xla") || n*max(1, o.CoresPerWorker) <= cores)
}
