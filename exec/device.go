package exec

import (
	"fmt"
	"runtime"
	"slices"

	"psim/exec/programs"
)

// DeviceOptions say which devices to open.
type DeviceOptions struct {
	// Oversubscribe allows more devices than the machine has cores. Their
	// times are then not comparable.
	Oversubscribe bool
}

// OpenDevices opens n devices of gomlx's Go backend, one core each, and checks
// that numbers can be copied between every pair. Close them when done.
func OpenDevices(n int, o DeviceOptions) ([]*programs.Device, error) {
	switch cores := runtime.GOMAXPROCS(0); {
	case n < 1:
		return nil, fmt.Errorf("%d devices: there must be at least 1", n)
	case n > cores && !o.Oversubscribe:
		return nil, fmt.Errorf("%d devices on %d cores: a device computes on a core of its own; use at most %d, or --oversubscribe where times do not matter", n, cores, cores)
	}
	var devices []*programs.Device
	for rank := range n {
		d, err := programs.OpenGo()
		if err != nil {
			CloseDevices(devices)
			return nil, fmt.Errorf("device %d: %w", rank, err)
		}
		devices = append(devices, d)
	}
	if err := selfTest(devices); err != nil {
		CloseDevices(devices)
		return nil, err
	}
	return devices, nil
}

// CloseDevices ends the backends. Tensors on them must be released before.
func CloseDevices(devices []*programs.Device) {
	for _, d := range devices {
		d.Close()
	}
}

// selfTest sends known numbers from every device to every other and back.
func selfTest(devices []*programs.Device) error {
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

// copyThereAndBack checks that a pattern survives two copies.
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
