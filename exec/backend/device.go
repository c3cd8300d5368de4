// Package backend opens the devices of this machine and computes on them, with gomlx: on
// cores with its Go backend, on GPUs with XLA. A [LocalDevice] holds tensors
// ([DeviceTensor]) and counts their bytes; a [Program] is compiled once and runs on such
// tensors. The package knows nothing of networks; package kernels does.
package backend

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

// GoConfig configures a Go backend that uses one core: a whole program runs on the goroutine
// that starts it. Another parallelism is slower, and 1 hangs (gomlx v0.28.0). In creation
// order, a backward program makes the weight gradients of a layer before it goes on to the
// layer before, and so frees the layer's tensors.
const GoConfig = "go:parallelism=0,ops_sequential,creation_order"

// goConfig returns the configuration of a backend: GoConfig or, with several cores, one that
// divides matrix products among a goroutine for each core.
func goConfig(cores int) string {
	if cores < 2 {
		return GoConfig
	}
	return strings.Replace(GoConfig, "parallelism=0", fmt.Sprint("parallelism=", cores), 1)
}

// A LocalDevice is a device of this machine that was opened. Tensors are on it, and programs
// run on it. It counts the bytes of its tensors. Its methods may be called concurrently.
type LocalDevice struct {
	Backend compute.Backend
	Number  compute.DeviceNum // among the backend's devices

	core     *int   // that it is pinned to; nil for any
	close    func() // in place of the backend's; nil unless that stays
	leave    func() // lets the process use all cores again; nil unless it is kept on some
	live     atomic.Int64
	observer atomic.Pointer[func(bytes int64)]
}

// stdoutMutex guards the redirection of standard output, which affects the whole process.
var stdoutMutex sync.Mutex

// OpenGo opens a device of n cores, 0 for one: a Go backend of its own. The backend prints a
// greeting on standard output, which is discarded.
func OpenGo(n int) (device *LocalDevice, err error) {
	stdoutMutex.Lock()
	defer stdoutMutex.Unlock()
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
	defer recoverAsError("opening a Go backend", &err)
	backend, err := compute.NewWithConfig(goConfig(n))
	if err != nil {
		return nil, fmt.Errorf("opening a Go backend: %w", err)
	}
	return &LocalDevice{Backend: backend}, nil
}

// PinTo keeps the work between Enter and leave on one core of the machine. It fails on systems
// that do not allow this.
func (d *LocalDevice) PinTo(core int) error {
	leave, err := cores.Stay(core)
	if err != nil {
		return err
	}
	leave()
	d.core = &core
	return nil
}

// Enter keeps the calling goroutine on the device's core, if it has one, until leave is called.
func (d *LocalDevice) Enter() (leave func(), err error) {
	if d.core == nil {
		return func() {}, nil
	}
	return cores.Stay(*d.core)
}

// Bytes returns the size of all tensors on the device.
func (d *LocalDevice) Bytes() int64 { return d.live.Load() }

// Description says which device it is, in the backend's words.
func (d *LocalDevice) Description() string {
	return d.Backend.Name() + ", " + d.Backend.DeviceDescription(d.Number)
}

// Close frees the backend with all of its devices; each of them may be closed. Release tensors
// and close programs first.
func (d *LocalDevice) Close() {
	if d.close != nil {
		d.close()
	} else {
		d.Backend.Finalize()
	}
	if d.leave != nil {
		d.leave()
	}
}

// Observe calls f with every change of Bytes from now on, from the goroutine that makes it; nil
// ends that.
func (d *LocalDevice) Observe(f func(change int64)) {
	if f == nil {
		d.observer.Store(nil)
		return
	}
	d.observer.Store(&f)
}

// count adds bytes that are held from now on; a negative number takes them off.
func (d *LocalDevice) count(bytes int64) {
	if bytes == 0 {
		return
	}
	if f := d.observer.Load(); f != nil {
		(*f)(bytes)
	}
	d.live.Add(bytes)
}

// Reserve counts bytes for tensors to come, until they are given back.
func (d *LocalDevice) Reserve(bytes int64) (back func()) {
	d.count(bytes)
	return func() { d.count(-bytes) }
}

// recoverAsError turns a panic of gomlx into an error that begins with what was done.
func recoverAsError(doing string, err *error) {
	switch problem := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("%s: %w", doing, problem)
	default:
		*err = fmt.Errorf("%s: %v", doing, problem)
	}
}
