package backend_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/internal/units"
)

// BenchmarkCopyTo passes a tensor from one device to another and back, each with a thread of
// its own. That is what the link cpu-shared-memory of configs/catalog stands for. p10-ns is the
// time of one way.
func BenchmarkCopyTo(b *testing.B) {
	devices := [2]*backend.LocalDevice{opened(b), opened(b)}
	for _, size := range []int{8, 2 << 10, 128 << 10, 8 << 20, 128 << 20} {
		b.Run(units.FormatBytes(int64(size)), func(b *testing.B) { benchmarkCopies(b, devices, size) })
	}
}

func benchmarkCopies(b *testing.B, devices [2]*backend.LocalDevice, size int) {
	there, back := make(chan *backend.DeviceTensor), make(chan *backend.DeviceTensor)
	go func() {
		runtime.LockOSThread()
		defer close(back)
		for x := range there {
			back <- moved(b, x, devices[0])
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	x, err := backend.Upload(devices[0], make([]float32, size/4), size/4)
	require.NoError(b, err)
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		there <- moved(b, x, devices[1])
		x = <-back
		took = append(took, time.Since(begin)/2)
	}
	close(there)
	<-back
	x.Release()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/10].Nanoseconds()), "p10-ns")
}

// moved copies a tensor to a device and frees it where it was.
func moved(b *testing.B, x *backend.DeviceTensor, to *backend.LocalDevice) *backend.DeviceTensor {
	copied, err := x.CopyTo(to)
	assert.NoError(b, err)
	x.Release()
	return copied
}
