package exec

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
)

// A Device is one rank's own backend: with gomlx's Go backend an instance that
// computes on one core.
type Device struct {
	Rank    int
	Backend compute.Backend
}

// DeviceOptions say which devices to open.
type DeviceOptions struct {
	// Oversubscribe allows more devices than the machine has cores. Their
	// times are then not comparable.
	Oversubscribe bool
}

// OpenDevices opens n devices of the Go backend and checks that bytes can be
// copied between every pair. Close them when done.
func OpenDevices(n int, o DeviceOptions) ([]*Device, error) {
	switch cores := runtime.GOMAXPROCS(0); {
	case n < 1:
		return nil, fmt.Errorf("%d devices: there must be at least 1", n)
	case n > cores && !o.Oversubscribe:
		return nil, fmt.Errorf("%d devices on %d cores: a device computes on a core of its own; use at most %d, or --oversubscribe where times do not matter", n, cores, cores)
	}
	var devices []*Device
	for rank := range n {
		// One operation after another, on the calling goroutine.
		backend, err := quietly(func() (compute.Backend, error) { return gobackend.New("parallelism=0,ops_sequential") })
		if err != nil {
			CloseDevices(devices)
			return nil, fmt.Errorf("device %d: %w", rank, err)
		}
		devices = append(devices, &Device{rank, backend})
	}
	if err := selfTest(devices); err != nil {
		CloseDevices(devices)
		return nil, err
	}
	return devices, nil
}

// CloseDevices ends the backends. Tensors on them must be finalized before.
func CloseDevices(devices []*Device) {
	for _, d := range devices {
		d.Backend.Finalize()
	}
}

// stdoutMu guards the moment in which os.Stdout is exchanged.
var stdoutMu sync.Mutex

// quietly calls a constructor with os.Stdout away: the Go backend prints its
// configuration there, and our stdout is for results.
func quietly[T any](construct func() (T, error)) (T, error) {
	stdoutMu.Lock()
	defer stdoutMu.Unlock()
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		var none T
		return none, err
	}
	defer sink.Close()
	stdout := os.Stdout
	os.Stdout = sink
	defer func() { os.Stdout = stdout }()
	return construct()
}

// Copy makes a copy of a tensor, of any device, on this one, by way of the
// host: separate backends share no memory.
func (d *Device) Copy(t *tensors.Tensor) (*tensors.Tensor, error) {
	var copied *tensors.Tensor
	var failed error
	err := t.ConstBytes(func(data []byte) {
		copied, failed = tensors.FromRaw(d.Backend, 0, t.Shape(), data)
	})
	return copied, errors.Join(err, failed)
}

// selfTest sends known bytes from every device to every other and back.
func selfTest(devices []*Device) error {
	for _, from := range devices {
		for _, to := range devices {
			if err := copyThereAndBack(from, to); from != to && err != nil {
				return fmt.Errorf("copying from device %d to device %d and back: %w", from.Rank, to.Rank, err)
			}
		}
	}
	return nil
}

// copyThereAndBack checks that a pattern survives two copies.
func copyThereAndBack(from, to *Device) error {
	pattern := make([]byte, 4*251)
	for i := range pattern {
		pattern[i] = byte(i*7 + 13*from.Rank + to.Rank)
	}
	first, err := tensors.FromRaw(from.Backend, 0, shapes.Make(dtypes.Uint8, len(pattern)), pattern)
	if err != nil {
		return err
	}
	there, err := to.Copy(first)
	if err != nil {
		return err
	}
	back, err := from.Copy(there)
	if err != nil {
		return err
	}
	wrong := -1
	err = back.ConstBytes(func(data []byte) {
		for i := range pattern {
			if i >= len(data) || data[i] != pattern[i] {
				wrong = i
				return
			}
		}
	})
	if err == nil && wrong >= 0 {
		err = fmt.Errorf("byte %d of %d came back changed", wrong, len(pattern))
	}
	return errors.Join(err, first.FinalizeAll(), there.FinalizeAll(), back.FinalizeAll())
}
