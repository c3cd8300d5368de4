package programs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
)

// A packed list begins with the number of its tensors. Each is the number of its
// dimensions, or none for nil, these, and its numbers. All take four bytes: what is
// counted in the order of this machine, as the numbers are.
const (
	word = 4
	none = 1<<32 - 1
)

// Pack makes one message of tensors of fp32, some of which may be nil.
func (l List) Pack() (data []byte, err error) {
	defer catch("packing tensors", &err)
	size := word
	for _, t := range l {
		size += word
		if t != nil {
			size += word*len(t.Dimensions()) + int(t.Bytes())
		}
	}
	data = binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(len(l)))
	for _, t := range l {
		if t == nil {
			data = binary.NativeEndian.AppendUint32(data, none)
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
			err = buffer.ToFlatData(numbers(data[from:]))
		}
		if err != nil {
			return nil, fmt.Errorf("packing tensors: %w", err)
		}
	}
	return data, nil
}

// numbers sees bytes as numbers.
func numbers(data []byte) []float32 {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/word)
}

// errPacked says that bytes are no packed list.
var errPacked = errors.New("unpacking tensors: the message is cut off, or none")

// Unpack puts the tensors of a message on a device.
func Unpack(d *Device, data []byte) (list List, err error) {
	if len(data) > 0 && uintptr(unsafe.Pointer(&data[0]))%word != 0 {
		data = slices.Clone(data)
	}
	defer func() {
		if err != nil {
			list.Release()
			list = nil
		}
	}()
	count, data, err := next(data)
	if err != nil || uint64(count) > uint64(len(data)/word) {
		return nil, errPacked
	}
	for range count {
		var dims uint32
		if dims, data, err = next(data); err != nil {
			return list, err
		}
		if dims == none {
			list = append(list, nil)
			continue
		}
		var t *Tensor
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

// unpackOne puts the first tensor on a device, and returns what comes after it.
func unpackOne(d *Device, dims uint32, data []byte) (*Tensor, []byte, error) {
	if uint64(dims) > uint64(len(data)/word) {
		return nil, nil, errPacked
	}
	shape, size := make([]int, dims), uint64(1)
	for i := range shape {
		var n uint32
		var err error
		if n, data, err = next(data); err != nil {
			return nil, nil, err
		}
		shape[i] = int(n)
		if size *= uint64(n); size > uint64(len(data)/word) {
			return nil, nil, errPacked
		}
	}
	if size > uint64(len(data)/word) {
		return nil, nil, errPacked
	}
	t, err := Upload(d, numbers(data[:size*word]), shape...)
	return t, data[size*word:], err
}

// next takes a number off.
func next(data []byte) (uint32, []byte, error) {
	if len(data) < word {
		return 0, nil, errPacked
	}
	return binary.NativeEndian.Uint32(data), data[word:], nil
}
