package programs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"psim/internal/cores"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers the backend "go"
)

// GoConfig is the configuration of a Go backend that uses one core: all of a program
// runs on the goroutine that starts it. Another parallelism is slower, and 1 hangs
// (gomlx v0.28.0). In creation order a backward program makes a layer's weight gradients
// before it goes on to the layer before, and so frees the layer's tensors.
const GoConfig = "go:parallelism=0,ops_sequential,creation_order"

// goConfig configures a backend: as GoConfig says, or with more cores so that matrix
// products are divided among as many goroutines of the backend's own.
func goConfig(cores int) string {
	if cores < 2 {
		return GoConfig
	}
	return strings.Replace(GoConfig, "parallelism=0", fmt.Sprint("parallelism=", cores), 1)
}

// Device is a place where tensors are and programs run, with a count of its
// bytes. Its methods may be called concurrently.
type Device struct {
	Backend compute.Backend
	Number  compute.DeviceNum // among the backend's devices

	core     *int // that it stays on; nil for wherever the system puts it
	live     atomic.Int64
	observer atomic.Pointer[func(bytes int64)]
}

// stdout guards the time while standard output is diverted, which is process-wide.
var stdout sync.Mutex

// OpenGo makes a device of some cores, 0 for one: a Go backend of its own. The backend
// says hello on standard output, which is diverted meanwhile.
func OpenGo(n int) (device *Device, err error) {
	stdout.Lock()
	defer stdout.Unlock()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a Go backend: %w", err)
	}
	kept := os.Stdout
	os.Stdout = null
	defer func() {
		os.Stdout = kept
		null.Close()
	}()
	defer catch("opening a Go backend", &err)
	backend, err := compute.NewWithConfig(goConfig(n))
	if err != nil {
		return nil, fmt.Errorf("opening a Go backend: %w", err)
	}
	return &Device{Backend: backend}, nil
}

// StayOn keeps what runs between Enter and leaving on a core of the machine. It fails
// where the system does not allow that.
func (d *Device) StayOn(core int) error {
	leave, err := cores.Stay(core)
	if err != nil {
		return err
	}
	leave()
	d.core = &core
	return nil
}

// Enter keeps the calling goroutine on the device's core, if it has one, until it
// leaves.
func (d *Device) Enter() (leave func(), err error) {
	if d.core == nil {
		return func() {}, nil
	}
	return cores.Stay(*d.core)
}

// Bytes is the size of all tensors on the device.
func (d *Device) Bytes() int64 { return d.live.Load() }

// Description says which device it is, in the backend's words.
func (d *Device) Description() string {
	return d.Backend.Name() + ", " + d.Backend.DeviceDescription(d.Number)
}

// Close frees the backend, for all of its devices; closing each of them is
// fine. Tensors and stages come first.
func (d *Device) Close() { d.Backend.Finalize() }

// Observe calls f with every change of Bytes from now on, from whichever
// goroutine makes it; nil ends that.
func (d *Device) Observe(f func(change int64)) {
	if f == nil {
		d.observer.Store(nil)
		return
	}
	d.observer.Store(&f)
}

// count adds bytes that are now held, or takes them off.
func (d *Device) count(bytes int64) {
	if bytes == 0 {
		return
	}
	if f := d.observer.Load(); f != nil {
		(*f)(bytes)
	}
	d.live.Add(bytes)
}

// Hold counts bytes for what is to come, until they are given back.
func (d *Device) Hold(bytes int64) (back func()) {
	d.count(bytes)
	return func() { d.count(-bytes) }
}

// catch turns a panic of gomlx into an error that begins with what was done.
func catch(doing string, err *error) {
	switch problem := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("%s: %w", doing, problem)
	default:
		*err = fmt.Errorf("%s: %v", doing, problem)
	}
}
