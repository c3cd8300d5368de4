package pytorch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/network"
)

// What is written is read again, tied tensors once.
func TestTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SliceOfN(rapid.Float32(), 6, 6).Draw(r, "values")
		table := network.Tensor{Name: "table", Shape: network.Dims{2, 3}}
		s := Start{
			tensors: []network.Tensor{table, table}, values: func(network.Tensor) []float32 { return values },
			numbers: values, targets: []int32{1, 0}, samples: 2,
		}
		require.NoError(r, s.save(path))
		data, err := os.ReadFile(path)
		require.NoError(r, err)
		_, err = parseTensors(data)
		require.ErrorContains(r, err, `"targets": want float32`, "targets are whole numbers")
		have, err := parseTensors([]byte(strings.ReplaceAll(string(data), "I64", "F32")))
		require.NoError(r, err)
		require.Equal(r, values, have["table"])
		require.Equal(r, values, have["inputs"])
	})
}

// No bytes make the readers panic.
func FuzzTensors(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\x39\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   ` + "abcd"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, err := parseTensors(data)
		require.True(t, err == nil || tensors == nil)
	})
}

func FuzzAlone(f *testing.F) {
	f.Add("round,rank,kind,stage,bytes,ns,beside_ns\n0,0,F,1,0,25,26\n0,1,OPTIMIZER,,0,7,7\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseAlone(strings.NewReader(text))
		for _, one := range list {
			require.NoError(t, err)
			require.GreaterOrEqual(t, one.Time, time.Duration(0))
		}
	})
}

func TestAlone(t *testing.T) {
	list, err := parseAlone(strings.NewReader("round,rank,kind,stage,bytes,ns,beside_ns\n0,1,SEND_F,2,96,25,26\n3,1,OPTIMIZER,,0,7,8\n"))
	require.NoError(t, err)
	require.Equal(t, []TaskTime{{0, 1, 2, "SEND_F", 96, 25, 26}, {3, 1, 0, "OPTIMIZER", 0, 7, 8}}, list)
	_, err = parseAlone(strings.NewReader("round,rank,kind,stage,bytes,ns,beside_ns\n0,1,F,2,0,-5,0\n"))
	require.EqualError(t, err, `"-5" must be a number from 0 on`)
	_, err = parseAlone(strings.NewReader("a,b\n"))
	require.EqualError(t, err, "its columns must be round, rank, kind, stage, bytes, ns and beside_ns")
}

// pretend returns a program that stands for Python.
func pretend(t *testing.T, script string) string {
	path := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	return path
}

// The Python that is named is used if it has PyTorch; otherwise the error says what would help.
func TestFind(t *testing.T) {
	python := pretend(t, "exit 0")
	t.Setenv(Variable, python)
	found, err := Find(t.Context())
	require.NoError(t, err)
	require.Equal(t, python, found)
	t.Setenv(Variable, pretend(t, "exit 1"))
	_, err = Find(t.Context())
	require.ErrorContains(t, err, "no Python with PyTorch (2.8 or later) was found; looked at ")
	require.ErrorContains(t, err, "set PSIM_PYTHON=torch/bin/python")
}

// What a program says before it fails is in the error, and an interrupt ends all that it has started.
func TestExecuteFails(t *testing.T) {
	_, err := Execute(t.Context(), Options{Python: pretend(t, "echo no module\nexit 3"), Steps: 1})
	require.EqualError(t, err, "PyTorch's program failed (exit status 3); the end of what it printed:\n  no module")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	done := filepath.Join(t.TempDir(), "done")
	_, err = Execute(ctx, Options{Python: pretend(t, "(sleep 2; touch "+done+") &\nwait"), Steps: 1})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	time.Sleep(2500 * time.Millisecond)
	require.NoFileExists(t, done)
}

// A program's lines about rounds are told once, when they are whole.
func TestWatched(t *testing.T) {
	var told []string
	w := watched{tell: func(line string) { told = append(told, line) }}
	for _, text := range []string{"round 1 ", "of 2\nwarn", "ing: round\nround 2 of 2\n"} {
		n, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	}
	require.Equal(t, []string{"round 1 of 2", "round 2 of 2"}, told)
	require.Equal(t, "round 1 of 2\nwarning: round\nround 2 of 2\n", w.String())
}
