package backend

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

// A DeviceTensor is a tensor on a device, with the number of its holders. Its contents never
// change.
type DeviceTensor struct {
	device  *LocalDevice
	value   *tensors.Tensor
	shape   shapes.Shape
	holders atomic.Int32
	counted bool // by the device; only the last holder changes it
}

// Tensors is a list of tensors, such as those of a program in the order of its parameters. Some
// may be nil.
type Tensors []*DeviceTensor

// NamedTensors are tensors by the names of a program's inputs.
type NamedTensors map[string]*DeviceTensor

// Release releases every tensor.
func (l Tensors) Release() {
	for _, t := range l {
		t.Release()
	}
}

// Retain adds a holder to every tensor and returns them as a list of its own.
func (l Tensors) Retain() Tensors {
	held := make(Tensors, len(l))
	for i, t := range l {
		held[i] = t.Retain()
	}
	return held
}

// Pointers returns a pointer to each element.
func (l Tensors) Pointers() []**DeviceTensor {
	at := make([]**DeviceTensor, len(l))
	for i := range l {
		at[i] = &l[i]
	}
	return at
}

// Bytes returns the size of all tensors.
func (l Tensors) Bytes() int64 {
	var n int64
	for _, t := range l {
		n += t.Bytes()
	}
	return n
}

// Upload copies values to a device. Their number is the product of the dimensions; without
// dimensions it is a scalar.
func Upload[T gotype.Supported](d *LocalDevice, values []T, dimensions ...int) (*DeviceTensor, error) {
	shape := shapes.Make(dtypes.FromGenericsType[T](), dimensions...)
	if shape.Size() != len(values) {
		return nil, fmt.Errorf("uploading a tensor: %d values for the shape %v", len(values), dimensions)
	}
	return FromFlat(d, values, shape, true)
}

// FromFlat uploads a slice. The device counts it, unless it is as short-lived as the
// temporaries of a program.
func FromFlat(d *LocalDevice, flat any, shape shapes.Shape, counted bool) (t *DeviceTensor, err error) {
	defer recoverAsError("uploading a tensor", &err)
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

// Read copies the values of a tensor from its device.
func Read[T gotype.Supported](t *DeviceTensor) (values []T, err error) {
	defer recoverAsError("reading a tensor", &err)
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

// CopyTo copies a tensor to another device, through the host if the devices belong to different
// backends. It returns when the copy is complete.
func (t *DeviceTensor) CopyTo(d *LocalDevice) (copied *DeviceTensor, err error) {
	defer recoverAsError("copying a tensor", &err)
	buffer, err := t.value.Buffer(t.device.Backend, t.device.Number)
	if err != nil {
		return nil, fmt.Errorf("copying a tensor: %w", err)
	}
	d.count(t.Bytes()) // the device needs room before the copy arrives
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

// Changed returns a tensor on the same device with other values. If their number changes, the
// result is flat.
func (t *DeviceTensor) Changed(change func(values []float32) []float32) (*DeviceTensor, error) {
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

// Finite reports whether all numbers of a float32 tensor are finite.
func (t *DeviceTensor) Finite() (bool, error) {
	values, err := Read[float32](t)
	for _, v := range values {
		if v-v != 0 { // NaN and infinities
			return false, err
		}
	}
	return true, err
}

// throughHost copies a buffer to a device of another backend.
func throughHost(from compute.Buffer, to *LocalDevice, shape shapes.Shape) (compute.Buffer, error) {
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

// wrap makes a tensor of a value that the device has already counted.
func wrap(d *LocalDevice, value *tensors.Tensor) *DeviceTensor {
	t := &DeviceTensor{device: d, value: value, shape: value.Shape(), counted: true}
	t.holders.Store(1)
	return t
}

// Device returns the device that the tensor is on.
func (t *DeviceTensor) Device() *LocalDevice { return t.device }

// Shape returns the type of the numbers and the dimensions.
func (t *DeviceTensor) Shape() shapes.Shape { return t.shape }

// Dimensions returns the dimensions of the tensor. Do not change them.
func (t *DeviceTensor) Dimensions() []int { return t.shape.Dimensions }

// Bytes returns the size of the tensor; 0 for nil.
func (t *DeviceTensor) Bytes() int64 {
	if t == nil {
		return 0
	}
	return t.shape.ByteSize()
}

// Retain adds a holder and returns the tensor.
func (t *DeviceTensor) Retain() *DeviceTensor {
	if t != nil {
		t.holders.Add(1)
	}
	return t
}

// Release removes a holder; the last one frees the memory. It does nothing to nil.
func (t *DeviceTensor) Release() {
	if t == nil {
		return
	}
	switch left := t.holders.Add(-1); {
	case left == 0:
		t.discount()
		t.free()
	case left < 0:
		panic("backend: a tensor was released more often than held")
	}
}

// discount takes the tensor off the device's count, once.
func (t *DeviceTensor) discount() {
	if t.counted {
		t.device.count(-t.Bytes())
		t.counted = false
	}
}

// free gives the memory back. The Go backend would leave that to the garbage collector, and new
// memory has to be mapped and cleared, which is a tenth of a convolution's time. So the buffer
// goes to the pool from which the backend's programs take their results. That method is not in
// gomlx's interfaces, and other backends do not have it.
func (t *DeviceTensor) free() {
	pool := reflect.ValueOf(t.device.Backend).MethodByName("PutBuffer")
	if !pool.IsValid() {
		t.value.FinalizeAll() // fails if the backend is already closed
		return
	}
	// An error means that a program has consumed the buffer.
	if buffer, err := t.value.DonateBuffer(t.device.Backend, t.device.Number); err == nil {
		pool.Call([]reflect.Value{reflect.ValueOf(buffer)})
	}
}
