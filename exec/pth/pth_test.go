package pth_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/exec/pth"
)

// read returns what a reader finds that knows only zip archives and pickles.
func read(t require.TestingT, data []byte, name string) (tensors []pth.SavedTensor) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	content := map[string][]byte{}
	for _, f := range archive.File {
		require.Equal(t, zip.Store, f.Method)
		r, err := f.Open()
		require.NoError(t, err)
		content[f.Name], err = io.ReadAll(r) // checks the sum
		require.NoError(t, err)
	}
	require.Equal(t, "3\n", string(content[name+"/version"]))
	require.Equal(t, "little", string(content[name+"/byteorder"]))
	items := unpickle(t, content[name+"/data.pkl"]).([]any)
	for i := 0; i < len(items); i += 2 {
		rebuilt := items[i+1].([]any)
		require.Equal(t, "torch._utils._rebuild_tensor_v2", rebuilt[0])
		arguments := rebuilt[1].([]any)
		storage := arguments[0].([]any)
		require.Equal(t, []any{"storage", "torch.FloatStorage", "cpu"}, []any{storage[0], storage[1], storage[3]})
		require.Equal(t, []any{0, false, []any{"collections.OrderedDict", []any{}}},
			[]any{arguments[1], arguments[4], arguments[5]})
		tensor := pth.SavedTensor{Name: items[i].(string), Shape: []int{}, Values: make([]float32, storage[4].(int))}
		stride := 1
		for k, n := range slices.Backward(arguments[2].([]any)) {
			require.Equal(t, stride, arguments[3].([]any)[k])
			stride *= n.(int)
			tensor.Shape = slices.Insert(tensor.Shape, 0, n.(int))
		}
		require.Equal(t, stride, len(tensor.Values))
		numbers := content[fmt.Sprintf("%s/data/%s", name, storage[2])]
		require.Len(t, numbers, 4*len(tensor.Values))
		for i := range tensor.Values {
			tensor.Values[i] = math.Float32frombits(binary.LittleEndian.Uint32(numbers[4*i:]))
		}
		tensors = append(tensors, tensor)
	}
	return tensors
}

// unpickle runs a pickle. A call is the list of function and arguments, and a dictionary is the
// list of keys and values.
func unpickle(t require.TestingT, program []byte) any {
	var stack []any
	var marks []int
	next := func(n int) []byte { b := program[:n]; program = program[n:]; return b }
	line := func() string { return string(bytes.TrimSuffix(next(bytes.IndexByte(program, '\n')+1), []byte("\n"))) }
	above := func() []any {
		from := marks[len(marks)-1]
		list := append([]any{}, stack[from:]...)
		stack, marks = stack[:from], marks[:len(marks)-1]
		return list
	}
	require.Equal(t, []byte{0x80, 2}, next(2))
	for {
		switch operation := next(1)[0]; operation {
		case '}', ')':
			stack = append(stack, []any{})
		case '(':
			marks = append(marks, len(stack))
		case 'X':
			stack = append(stack, string(next(int(binary.LittleEndian.Uint32(next(4))))))
		case 'c':
			stack = append(stack, line()+"."+line())
		case 'K':
			stack = append(stack, int(next(1)[0]))
		case 'M':
			stack = append(stack, int(binary.LittleEndian.Uint16(next(2))))
		case 'J':
			stack = append(stack, int(int32(binary.LittleEndian.Uint32(next(4)))))
		case 't':
			stack = append(stack, any(above()))
		case 'Q':
		case 0x89:
			stack = append(stack, false)
		case 'R':
			last := len(stack) - 1
			stack = append(stack[:last-1], any([]any{stack[last-1], stack[last]}))
		case 'u':
			items := above()
			stack[len(stack)-1] = items
		case '.':
			require.Empty(t, program)
			require.Len(t, stack, 1)
			return stack[0]
		default:
			require.Fail(t, "an unknown operation", "%q", operation)
		}
	}
}

// What is written can be read, to the bit, and writing twice gives the same bytes.
func TestReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tensors []pth.SavedTensor
		for i := range rapid.IntRange(0, 4).Draw(t, "tensors") {
			shape, elements := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 7, 300}), 0, 2).Draw(t, "shape"), 1
			for _, n := range shape {
				elements *= n
			}
			values := make([]float32, elements)
			for k := range values {
				values[k] = float32(k) * rapid.Float32Range(-1, 1).Draw(t, "scale")
				if k == 20 {
					break
				}
			}
			tensors = append(tensors, pth.SavedTensor{Name: fmt.Sprintf("layer.%d.größe", i), Shape: shape, Values: values})
		}
		var first, second bytes.Buffer
		require.NoError(t, pth.Write(&first, "model0_gradients", tensors))
		require.NoError(t, pth.Write(&second, "model0_gradients", tensors))
		require.Equal(t, first.Bytes(), second.Bytes())
		got := read(t, first.Bytes(), "model0_gradients")
		require.Len(t, got, len(tensors))
		for i, want := range tensors {
			require.Equal(t, want, got[i])
		}
	})
}

// The number of elements of a large table needs four bytes, and NaN is kept.
func TestLargeAndStrange(t *testing.T) {
	large := pth.SavedTensor{Name: "table", Shape: []int{300, 300}, Values: make([]float32, 90_000)}
	large.Values[1], large.Values[2] = float32(math.Inf(-1)), math.SmallestNonzeroFloat32
	var out bytes.Buffer
	require.NoError(t, pth.Write(&out, "m", []pth.SavedTensor{large}))
	require.Equal(t, []pth.SavedTensor{large}, read(t, out.Bytes(), "m"))
	require.ErrorContains(t, pth.Write(io.Discard, "m",
		[]pth.SavedTensor{{Name: "w", Shape: []int{2, 3}, Values: make([]float32, 5)}}),
		"w has 5 numbers, and its shape [2 3] as many as 6")
}

// An archive lists the tensors, their numbers and the version of the format.
func ExampleWrite() {
	var out bytes.Buffer
	if err := pth.Write(&out, "model0_gradients",
		[]pth.SavedTensor{{Name: "bias", Shape: []int{2}, Values: []float32{1, 2}}}); err != nil {
		fmt.Println(err)
		return
	}
	archive, _ := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	for _, f := range archive.File {
		fmt.Println(f.Name)
	}
	// Output:
	// model0_gradients/data.pkl
	// model0_gradients/byteorder
	// model0_gradients/data/0
	// model0_gradients/version
}
