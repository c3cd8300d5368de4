// Package pth writes tensors as torch.save writes a dictionary of them, so that torch.load can
// read them: an uncompressed zip archive with a pickle that names the tensors and a file of
// numbers for each. Equal tensors give equal bytes.
package pth

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// A SavedTensor is a tensor of the dictionary, with its numbers in rows, the last dimension fastest.
type SavedTensor struct {
	Name   string
	Shape  []int
	Values []float32 // the number that the shape requires
}

// Write writes an archive. The name is the file's without its extension. The dictionary has the
// tensors by name, in order.
func Write(w io.Writer, name string, tensors []SavedTensor) error {
	archive := zip.NewWriter(w)
	add := func(file string, content []byte) error {
		stored, err := archive.CreateRaw(&zip.FileHeader{
			Name: name + "/" + file, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content),
			CompressedSize64: uint64(len(content)), UncompressedSize64: uint64(len(content)),
		})
		if err == nil {
			_, err = stored.Write(content)
		}
		return err
	}
	index, err := dictionary(tensors)
	if err != nil {
		return err
	}
	if err := add("data.pkl", index); err != nil {
		return err
	}
	if err := add("byteorder", []byte("little")); err != nil {
		return err
	}
	for i, t := range tensors {
		numbers, err := binary.Append(nil, binary.LittleEndian, t.Values)
		if err == nil {
			err = add("data/"+strconv.Itoa(i), numbers)
		}
		if err != nil {
			return err
		}
	}
	if err := add("version", []byte("3\n")); err != nil {
		return err
	}
	return archive.Close()
}

// The operations of pickle's protocol 2 that are used.
const (
	protocol   = "\x80\x02"
	dict       = "}"
	mark       = "("
	tuple      = "t" // of what is above the mark
	none       = ")" // the empty tuple
	persistent = "Q" // an external object, by the tuple that describes it
	no         = "\x89"
	call       = "R" // a function with a tuple of arguments
	setItems   = "u" // keys and values above the mark
	stop       = "."
)

// dictionary pickles the tensors. Each is a call that rebuilds it from a file of numbers, with
// offset, shape, strides, no gradient and no hooks.
func dictionary(tensors []SavedTensor) ([]byte, error) {
	var p pickle
	p.write(protocol, dict, mark)
	for i, t := range tensors {
		elements := 1
		for _, n := range t.Shape {
			elements *= n
		}
		if elements != len(t.Values) {
			return nil, fmt.Errorf("%s has %d numbers, and its shape %v as many as %d",
				t.Name, len(t.Values), t.Shape, elements)
		}
		p.text(t.Name)
		p.global("torch._utils", "_rebuild_tensor_v2")
		p.write(mark, mark)
		p.text("storage")
		p.global("torch", "FloatStorage")
		p.text(strconv.Itoa(i))
		p.text("cpu")
		p.integer(elements)
		p.write(tuple, persistent)
		p.integer(0)
		p.integers(t.Shape)
		p.integers(strides(t.Shape))
		p.write(no)
		p.global("collections", "OrderedDict")
		p.write(none, call, tuple, call)
	}
	p.write(setItems, stop)
	return p.Bytes(), nil
}

// strides returns how far apart the neighbours along each dimension are.
func strides(shape []int) []int {
	list, stride := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		list[i] = stride
		stride *= shape[i]
	}
	return list
}

// A pickle is a program for Python's unpickler.
type pickle struct{ bytes.Buffer }

func (p *pickle) write(operations ...string) {
	for _, o := range operations {
		p.WriteString(o)
	}
}

func (p *pickle) text(s string) {
	p.WriteByte('X')
	p.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
	p.WriteString(s)
}

func (p *pickle) global(module, name string) { p.write("c", module, "\n", name, "\n") }

// integer writes a number that is not negative in the shortest form, as Python does.
func (p *pickle) integer(n int) {
	switch {
	case n < 1<<8:
		p.write("K", string([]byte{byte(n)}))
	case n < 1<<16:
		p.write("M")
		p.Write(binary.LittleEndian.AppendUint16(nil, uint16(n)))
	case n < 1<<31:
		p.write("J")
		p.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	default:
		p.write("\x8a\x08") // of 8 bytes
		p.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
}

func (p *pickle) integers(list []int) {
	p.write(mark)
	for _, n := range list {
		p.integer(n)
	}
	p.write(tuple)
}
