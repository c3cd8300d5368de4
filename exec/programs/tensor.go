package programs

import (
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/gotype"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
)

// Tensor is a tensor on a device and the number of those who hold it. Its
// contents never change.
type Tensor struct {
	device  *Device
	value   *tensors.Tensor
	shape   shapes.Shape
	holders atomic.Int32
	counted bool // by the device; changed by the last holder alone
}

// List holds tensors in the order of a stage's parameters.
type List []*Tensor

// Release releases each tensor that is not nil.
func (l List) Release() {
	for _, t := range l {
		t.Release()
	}
}

// Retain adds a holder to each tensor and returns them as a list of its own.
func (l List) Retain() List {
	held := make(List, len(l))
	for i, t := range l {
		held[i] = t.Retain()
	}
	return held
}

// Bytes is the size of all tensors.
func (l List) Bytes() int64 {
	var n int64
	for _, t := range l {
		n += t.Bytes()
	}
	return n
}

// Upload copies values to the device. Their number is the product of the
// dimensions; none make a scalar.
func Upload[T gotype.Supported](d *Device, values []T, dimensions ...int) (*Tensor, error) {
	shape := shapes.Make(dtypes.FromGenericsType[T](), dimensions...)
	if shape.Size() != len(values) {
		return nil, fmt.Errorf("uploading a tensor: %d values for the shape %v", len(values), dimensions)
	}
	return fromFlat(d, values, shape, true)
}

// fromFlat uploads a slice, and counts it unless it is as short-lived as a
// program's temporaries.
func fromFlat(d *Device, flat any, shape shapes.Shape, counted bool) (t *Tensor, err error) {
	defer catch("uploading a tensor", &err)
	buffer, err := d.Backend.BufferFromFlatData(d.Number, flat, shape)
	if err != nil {
		return nil, fmt.Errorf("uploading a tensor: %w", err)
	}
	value, err := tensors.FromBuffer(buffer)
	if err != nil {
		return nil, fmt.Errorf("uploading a tensor: %w", err)
	}
	if counted {
		d.count(shape.ByteSize())
	}
	t = wrap(d, value)
	t.counted = counted
	return t, nil
}

// Read copies a tensor's values from its device.
func Read[T gotype.Supported](t *Tensor) (values []T, err error) {
	defer catch("reading a tensor", &err)
	buffer, err := t.value.Buffer(t.device.Backend, t.device.Number)
	if err != nil {
		return nil, fmt.Errorf("reading a tensor: %w", err)
	}
	if want := dtypes.FromGenericsType[T](); t.shape.DType != want {
		return nil, fmt.Errorf("reading a tensor: it is %s, not %s", t.shape.DType, want)
	}
	values = make([]T, t.shape.Size())
	return values, buffer.ToFlatData(values)
}

// CopyTo copies a tensor to another device, through the host where they belong
// to different backends. It waits until the copy is there.
func (t *Tensor) CopyTo(d *Device) (copied *Tensor, err error) {
	defer catch("copying a tensor", &err)
	buffer, err := t.value.Buffer(t.device.Backend, t.device.Number)
	if err != nil {
		return nil, fmt.Errorf("copying a tensor: %w", err)
	}
	d.count(t.Bytes()) // must fit before it comes
	defer func() {
		if copied == nil {
			d.count(-t.Bytes())
		}
	}()
	var there compute.Buffer
	if t.device.Backend == d.Backend && t.device.Number != d.Number {
		there, err = buffer.CopyToDevice(d.Number)
	} else {
		there, err = throughHost(buffer, d, t.shape)
	}
	if err != nil {
		return nil, fmt.Errorf("copying a tensor: %w", err)
	}
	value, err := tensors.FromBuffer(there)
	if err != nil {
		return nil, fmt.Errorf("copying a tensor: %w", err)
	}
	return wrap(d, value), nil
}

// Changed returns a tensor of the same device with other numbers, flat where their number
// is another.
func (t *Tensor) Changed(change func(values []float32) []float32) (*Tensor, error) {
	values, err := Read[float32](t)
	if err != nil {
		return nil, err
	}
	dimensions := t.shape.Dimensions
	if values = change(values); len(values) != t.shape.Size() {
		dimensions = []int{len(values)}
	}
	return Upload(t.device, values, dimensions...)
}

// Finite reports whether all numbers of a tensor of fp32 are finite.
func (t *Tensor) Finite() (bool, error) {
	values, err := Read[float32](t)
	for _, v := range values {
		if v-v != 0 { // NaN and infinities
			return false, err
		}
	}
	return true, err
}

func throughHost(from compute.Buffer, to *Device, shape shapes.Shape) (compute.Buffer, error) {
	var flat any
	var err error
	if from.Backend().HasSharedBuffers() {
		flat, err = from.Data()
	} else {
		flat = dtypes.MakeAnySlice(shape.DType, shape.Size())
		err = from.ToFlatData(flat)
	}
	if err != nil {
		return nil, err
	}
	return to.Backend.BufferFromFlatData(to.Number, flat, shape)
}

// wrap makes a tensor that the device has counted already.
func wrap(d *Device, value *tensors.Tensor) *Tensor {
	t := &Tensor{device: d, value: value, shape: value.Shape(), counted: true}
	t.holders.Store(1)
	return t
}

// Dimensions of the tensor, not to be changed.
func (t *Tensor) Dimensions() []int { return t.shape.Dimensions }

// Bytes is the size of the tensor; 0 for nil.
func (t *Tensor) Bytes() int64 {
	if t == nil {
		return 0
	}
	return t.shape.ByteSize()
}

// Retain adds a holder and returns the tensor.
func (t *Tensor) Retain() *Tensor {
	if t != nil {
		t.holders.Add(1)
	}
	return t
}

// Release takes a holder off; the last one frees the memory. It does nothing to
// nil.
func (t *Tensor) Release() {
	if t == nil {
		return
	}
	switch left := t.holders.Add(-1); {
	case left == 0:
		t.discount()
		t.free()
	case left < 0:
		panic("programs: a tensor was released more often than held")
	}
}

// discount takes the tensor off the device's count, once.
func (t *Tensor) discount() {
	if t.counted {
		t.device.count(-t.Bytes())
		t.counted = false
	}
}

// free gives the memory back. The Go backend would leave it to the garbage collector, and
// new memory has to be mapped and cleared: a tenth of a convolution's time. So it goes to
// the pool that the backend's programs take their results from; that has no name in
// gomlx's interfaces, and other backends have none.
func (t *Tensor) free() {
	pool := reflect.ValueOf(t.device.Backend).MethodByName("PutBuffer")
	if !pool.IsValid() {
		t.value.FinalizeAll() // fails where the backend is closed already
		return
	}
	if buffer, err := t.value.DonateBuffer(t.device.Backend, t.device.Number); err == nil { // no program has it
		pool.Call([]reflect.Value{reflect.ValueOf(buffer)})
	}
}
