package rankings

import (
	"fmt"
	"os"
	"path/filepath"

	"psim/internal/files"
)

// LoadSweep reads a sweep from its folder. For a folder without a sweep.json it returns an
// error for which os.IsNotExist is true.
func LoadSweep(folder string) (Sweep, error) {
	return files.Steady(folder, func() (Sweep, error) {
		info, err := files.Read(filepath.Join(folder, "sweep.json"), ReadSweepInfo)
		if err != nil {
			return Sweep{}, err
		}
		points, err := files.Read(filepath.Join(folder, "sweep.jsonl"), ReadPoints)
		if os.IsNotExist(err) {
			err = fmt.Errorf("%s: has a sweep.json, but no sweep.jsonl", folder)
		}
		if err == nil {
			err = files.Verify(folder, "sweep.json", "sweep.jsonl")
		}
		return Sweep{info, points}, err
	})
}
