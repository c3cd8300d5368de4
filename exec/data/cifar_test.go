package data_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"psim/exec/data"
)

const recordBytes = 3073

// record makes a CIFAR-10 record with one value in each plane.
func record(label, red, green, blue byte) []byte {
	r := []byte{label}
	for _, v := range []byte{red, green, blue} {
		r = append(r, bytes.Repeat([]byte{v}, 1024)...)
	}
	return r
}

// writeFolder makes a CIFAR-10 folder with two pictures in each file.
func writeFolder(t *testing.T, files ...string) string {
	folder := t.TempDir()
	for i, name := range files {
		text := append(record(byte(2*i%10), 0, 0, 0), record(byte((2*i+1)%10), 255, 255, 255)...)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o644))
	}
	return folder
}

func TestCIFAR10Normalised(t *testing.T) {
	s, err := data.ReadCIFAR10(bytes.NewReader(append(record(3, 0, 128, 255), record(9, 255, 0, 1)...)), "x.bin", 0)
	require.NoError(t, err)
	require.Equal(t, 2, s.Len())
	pixels, labels := s.Batch([]int{1, 0, 1})
	require.Equal(t, []int32{9, 3, 9}, labels)
	require.Len(t, pixels, 3*3*32*32)
	second := pixels[3*1024 : 6*1024]
	for plane, want := range []float64{(0 - 0.4914) / 0.2023, (128.0/255 - 0.4822) / 0.1994, (1 - 0.4465) / 0.2010} {
		for _, v := range second[plane*1024 : (plane+1)*1024] {
			require.InDelta(t, want, v, 1e-6)
		}
	}
	require.Equal(t, pixels[:3*1024], pixels[6*1024:])
}

func TestLoadCIFAR10(t *testing.T) {
	var names []string
	for i := 1; i <= 5; i++ {
		names = append(names, fmt.Sprintf("data_batch_%d.bin", i))
	}
	folder := writeFolder(t, names...)
	s, err := data.LoadCIFAR10(folder, 0)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, s.Labels)
	require.Len(t, s.Pixels, 10*3*32*32)

	require.NoError(t, os.Remove(filepath.Join(folder, "data_batch_3.bin")))
	s, err = data.LoadCIFAR10(folder, 4)
	require.NoError(t, err)
	require.Equal(t, 4, s.Len())
	_, err = data.LoadCIFAR10(folder, 5)
	require.ErrorContains(t, err, "data_batch_3.bin")
	require.ErrorContains(t, err, "cifar-10-binary.tar.gz")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCIFAR10Errors(t *testing.T) {
	good := record(1, 2, 3, 4)
	for want, text := range map[string][]byte{
		"x.bin: empty; expected CIFAR-10 records of 3073 bytes": nil,
		"x.bin: ends after 5 bytes of record 2; the length must be a multiple of 3073": append(
			good, 1, 2, 3, 4, 5),
		"x.bin: record 2 has label 10; it must be 0 to 9 (is this a CIFAR-10 file, and not c": append(
			good, record(10, 0, 0, 0)...),
	} {
		_, err := data.ReadCIFAR10(bytes.NewReader(text), "x.bin", 0)
		require.ErrorContains(t, err, want)
	}
	_, err := data.ReadCIFAR10(iotest.ErrReader(os.ErrPermission), "x.bin", 0)
	require.ErrorIs(t, err, os.ErrPermission)
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "data_batch_1.bin"), 0o755))
	_, err = data.LoadCIFAR10(folder, 0)
	require.ErrorContains(t, err, "data_batch_1.bin")
}

// FuzzReadCIFAR10 reads a record for each label, and a tail that is too short for one.
func FuzzReadCIFAR10(f *testing.F) {
	f.Add([]byte{}, []byte{}, 0)
	f.Add([]byte{9}, []byte{}, 0)
	f.Add([]byte{0, 10}, []byte{}, 1)
	f.Add([]byte{3, 4, 5}, []byte{1, 2}, -1)
	f.Fuzz(func(t *testing.T, labels, tail []byte, limit int) {
		labels, tail = labels[:min(len(labels), 12)], tail[:min(len(tail), recordBytes-1)]
		want := labels
		if limit > 0 {
			want = labels[:min(len(labels), limit)]
		}
		var text []byte
		for _, label := range labels {
			text = append(text, record(label, label, 1, 2)...)
		}
		s, err := data.ReadCIFAR10(bytes.NewReader(append(text, tail...)), "fuzz", limit)
		stopped := limit > 0 && limit <= len(labels)
		bad := slices.ContainsFunc(want, func(label byte) bool { return label > 9 })
		if bad || len(labels) == 0 || len(tail) > 0 && !stopped {
			require.ErrorContains(t, err, "fuzz: ")
			return
		}
		require.NoError(t, err)
		require.Equal(t, len(want), s.Len())
		for i, label := range want {
			require.Equal(t, int32(label), s.Labels[i])
			require.Equal(t, record(label, label, 1, 2)[1:], s.Pixels[i*3072:(i+1)*3072])
		}
	})
}
