package pytorch

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// tensorHeader describes a tensor in a safetensors file.
type tensorHeader struct {
	Type    string   `json:"dtype"` // F32 or I64
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // of its bytes, after the header
}

// bytes returns the size of an element.
func (t tensorHeader) bytes() int64 {
	if t.Type == "I64" {
		return 8
	}
	return 4
}

// A layout collects the tensors of a safetensors file.
type layout struct {
	header map[string]tensorHeader
	values []func() any // each returns a slice of numbers
	end    int64
}

// add appends a tensor, unless there is one of its name.
func (l *layout) add(name, kind string, shape []int, values func() any) {
	if _, known := l.header[name]; known {
		return
	}
	t := tensorHeader{Type: kind, Shape: shape}
	n := t.bytes()
	for _, d := range shape {
		n *= int64(d)
	}
	t.Offsets = [2]int64{l.end, l.end + n}
	l.header[name], l.end, l.values = t, l.end+n, append(l.values, values)
}

// Write writes a safetensors file. Weights are made one after another.
func (s *Start) Write(to io.Writer) error {
	l := layout{header: map[string]tensorHeader{}}
	for _, t := range s.tensors {
		l.add(t.Name, "F32", t.Shape, func() any { return s.values(t) })
	}
	targets := []int{s.samples}
	if s.tokens != nil {
		l.add("inputs", "I64", []int{s.samples, len(s.tokens) / s.samples}, func() any { return wide(s.tokens) })
		targets = append(targets, len(s.targets)/s.samples)
	} else {
		l.add("inputs", "F32", []int{s.samples, len(s.numbers) / s.samples}, func() any { return s.numbers })
	}
	l.add("targets", "I64", targets, func() any { return wide(s.targets) })
	text, err := json.Marshal(l.header)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(to)
	if err = binary.Write(w, binary.LittleEndian, uint64(len(text))); err != nil {
		return err
	}
	_, err = w.Write(text)
	for _, values := range l.values {
		if err == nil {
			err = binary.Write(w, binary.LittleEndian, values())
		}
	}
	return errors.Join(err, w.Flush())
}

// save writes a file.
func (s *Start) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(s.Write(f), f.Close())
}

func wide(list []int32) []int64 {
	wide := make([]int64, len(list))
	for i, n := range list {
		wide[i] = int64(n)
	}
	return wide
}

// readTensors reads a safetensors file of float32 tensors.
func readTensors(path string) (map[string][]float32, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tensors, err := parseTensors(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return tensors, nil
}

func parseTensors(data []byte) (map[string][]float32, error) {
	var header map[string]tensorHeader
	if len(data) < 8 || binary.LittleEndian.Uint64(data) > uint64(len(data)-8) {
		return nil, fmt.Errorf("%d bytes are too few for its header", len(data))
	}
	end := 8 + binary.LittleEndian.Uint64(data)
	if err := json.Unmarshal(data[8:end], &header); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	data = data[end:]
	tensors := make(map[string][]float32, len(header))
	for name, t := range header {
		from, to := t.Offsets[0], t.Offsets[1]
		if t.Type != "F32" || from < 0 || to < from || to > int64(len(data)) || (to-from)%4 != 0 {
			return nil, fmt.Errorf("tensor %q: want float32 numbers within the file", name)
		}
		values := make([]float32, 0, (to-from)/4)
		for four := range slices.Chunk(data[from:to], 4) {
			values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(four)))
		}
		tensors[name] = values
	}
	return tensors, nil
}
