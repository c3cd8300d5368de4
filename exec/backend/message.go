package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"psim/internal/fault"
	"slices"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
)

// A packed list begins with the number of its tensors. A tensor is the number of its dimensions
// (nilTensor for nil), the dimensions, and its values. Every number takes four bytes, in the
// byte order of this machine.
const (
	wordBytes = 4
	nilTensor = 1<<32 - 1
)

// Pack makes one message of float32 tensors. A tensor may be nil.
func (l Tensors) Pack() (data []byte, err error) {
	defer recoverAsError("packing tensors", &err)
	size := wordBytes
	for _, t := range l {
		size += wordBytes
		if t != nil {
			size += wordBytes*len(t.Dimensions()) + int(t.Bytes())
		}
	}
	data = binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(len(l)))
	for _, t := range l {
		if t == nil {
			data = binary.NativeEndian.AppendUint32(data, nilTensor)
			continue
		}
		if t.shape.DType != dtypes.Float32 {
			return nil, fmt.Errorf("packing tensors: one is %s, not fp32", t.shape.DType)
		}
		data = binary.NativeEndian.AppendUint32(data, uint32(len(t.Dimensions())))
		for _, d := range t.Dimensions() {
			data = binary.NativeEndian.AppendUint32(data, uint32(d))
		}
		from := len(data)
		data = data[:from+int(t.Bytes())]
		buffer, err := t.value.Buffer(t.device.Backend, t.device.Number)
		if err == nil {
			err = buffer.ToFlatData(asFloats(data[from:]))
		}
		if err != nil {
			return nil, fmt.Errorf("packing tensors: %w", err)
		}
	}
	return data, nil
}

// asFloats views bytes as numbers.
func asFloats(data []byte) []float32 {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/wordBytes)
}

// errPacked says that bytes are not a packed list.
var errPacked = errors.New("unpacking tensors: the message is cut off, or none")

// Unpack puts the tensors of a message on a device.
func Unpack(d *LocalDevice, data []byte) (list Tensors, err error) {
	if len(data) > 0 && uintptr(unsafe.Pointer(&data[0]))%wordBytes != 0 {
		data = slices.Clone(data)
	}
	defer func() {
		if err != nil {
			list.Release()
			list = nil
		}
	}()
	count, data, err := takeNumber(data)
	if err != nil || uint64(count) > uint64(len(data)/wordBytes) {
		return nil, errPacked
	}
	for range count {
		var dims uint32
		if dims, data, err = takeNumber(data); err != nil {
			return list, err
		}
		if dims == nilTensor {
			list = append(list, nil)
			continue
		}
		var t *DeviceTensor
		if t, data, err = unpackOne(d, dims, data); err != nil {
			return list, err
		}
		list = append(list, t)
	}
	if len(data) > 0 {
		err = errPacked
	}
	return list, err
}

// unpackOne puts the first tensor on a device, and returns the data behind it.
func unpackOne(d *LocalDevice, dims uint32, data []byte) (*DeviceTensor, []byte, error) {
	if uint64(dims) > uint64(len(data)/wordBytes) {
		return nil, nil, errPacked
	}
	shape, size := make([]int, dims), uint64(1)
	for i := range shape {
		var n uint32
		var err error
		if n, data, err = takeNumber(data); err != nil {
			return nil, nil, err
		}
		shape[i] = int(n)
		if size *= uint64(n); size > uint64(len(data)/wordBytes) {
			return nil, nil, errPacked
		}
	}
	if size > uint64(len(data)/wordBytes) {
		return nil, nil, errPacked
	}
	t, err := Upload(d, asFloats(data[:size*wordBytes]), shape...)
	return t, data[size*wordBytes:], err
}

// takeNumber reads a number, and returns the data behind it.
func takeNumber(data []byte) (uint32, []byte, error) {
	if len(data) < wordBytes {
		return 0, nil, errPacked
	}
	return binary.NativeEndian.Uint32(data), data[wordBytes:], nil
}

// Send copies a tensor to another device as a message does: it checks that all bytes have
// arrived. Tests can let a message lose a number.
func (t *DeviceTensor) Send(ctx context.Context, d *LocalDevice) (*DeviceTensor, error) {
	copied, err := t.CopyTo(d)
	if err == nil && fault.DamageOf(ctx) == fault.Truncated {
		whole := copied
		copied, err = whole.Changed(func(values []float32) []float32 { return values[:len(values)-1] })
		whole.Release()
	}
	if err == nil && copied.Bytes() != t.Bytes() {
		err = fmt.Errorf("a message of %d bytes came with %d", t.Bytes(), copied.Bytes())
		copied.Release()
	}
	return copied, err
}

// Spoil fills the first of some tensors that is not nil with NaN, for tests.
func Spoil(tensors []**DeviceTensor) error {
	for _, at := range tensors {
		if *at == nil {
			continue
		}
		spoiled, err := (*at).Changed(func(values []float32) []float32 {
			for i := range values {
				values[i] = float32(math.NaN())
			}
			return values
		})
		if err != nil {
			return err
		}
		(*at).Release()
		*at = spoiled
		return nil
	}
	return nil
}
