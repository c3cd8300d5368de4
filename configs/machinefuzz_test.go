package configs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"psim/configs"
	"psim/configs/machinefile"
)

// A machine file never makes psim panic, and what was read and written is read
// back as the same machine.
func FuzzMachineFile(f *testing.F) {
	paths, err := filepath.Glob("testdata/machine*.*")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("machine.measured = [{layer = \"a\", samples = 2}, {layer = \"a\", samples = 1}]"))
	f.Add([]byte("[[machine]]\n[[machine.measured]]"))
	f.Add([]byte(`"]"=""`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := configs.ParseMachine("m.toml", data)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		if _, err := m.Device.Achievable("fp32"); err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := machinefile.Write(&first, m, nil); err != nil {
			t.Fatal(err)
		}
		again, err := configs.ParseMachine("m.toml", first.Bytes())
		if err != nil {
			t.Fatalf("%v\n%s", err, first.Bytes())
		}
		if err := machinefile.Write(&second, again, nil); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%s\nwas read as\n%s", first.Bytes(), second.Bytes())
		}
	})
}
