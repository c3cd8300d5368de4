package programs

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // registers the backend "go"
)

// GoConfig is the configuration of a Go backend that uses one core. Another
// parallelism is slower, and 1 hangs (gomlx v0.28.0). In creation order a
// backward program makes a layer's weight gradients before it goes on to the
// layer before, and so frees the layer's tensors.
const GoConfig = "go:parallelism=0,ops_sequential,creation_order"

// Device is a place where tensors are and programs run, with a count of its
// bytes. Its methods may be called concurrently.
type Device struct {
	Backend compute.Backend
	Number  compute.DeviceNum // among the backend's devices

	live     atomic.Int64
	observer atomic.Pointer[func(bytes int64)]
}

// stdout guards the time while standard output is diverted, which is process-wide.
var stdout sync.Mutex

// OpenGo makes a device of one core: a Go backend of its own. The backend says
// hello on standard output, which is diverted meanwhile.
func OpenGo() (device *Device, err error) {
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
	backend, err := compute.NewWithConfig(GoConfig)
	if err != nil {
		return nil, fmt.Errorf("opening a Go backend: %w", err)
	}
	return &Device{Backend: backend}, nil
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
