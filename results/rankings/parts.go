package rankings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"psim/internal/files"
	"psim/internal/units"
)

// MissingPoints is the error of a merge in which combinations, or shards, are missing.
type MissingPoints struct {
	Count, Of int
	Sets      [][]string // the settings of the first of them
	Shards    bool       // shards are missing, rather than points
}

// MostMissing limits the missing points that are named.
const MostMissing = 5

// Error lists the first of the missing points.
func (m *MissingPoints) Error() string {
	what := "point"
	if m.Shards {
		what = "shard"
	}
	text := fmt.Sprintf("%d of %s are missing", m.Count, units.Plural(m.Of, what))
	for _, set := range m.Sets {
		text += "\n  " + strings.Join(set, " ")
	}
	if more := m.Count - len(m.Sets); more > 0 {
		text += fmt.Sprintf("\n  … and %d more", more)
	}
	return text
}

// PartFolders lists the folders of sweeps or of searches: the given folders, or the shards
// in them.
func PartFolders(kind string, folders []string) (list []string, err error) {
	what := kind
	if kind == "sweep" { // also used if the folders may be of a search
		what = "sweep or search"
	}
	for _, folder := range folders {
		if folder == "" {
			return nil, errors.New(`"": the name of a folder is empty`)
		}
		var inside []string
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("%s: %s", folder, files.Reason(err))
		}
		for _, e := range entries {
			shard := filepath.Join(folder, e.Name())
			if strings.HasPrefix(e.Name(), "shard-") && files.IsFolder(shard) {
				inside = append(inside, shard)
			}
		}
		if len(inside) == 0 {
			inside = []string{folder}
		}
		for _, folder := range inside {
			if _, err := os.Stat(filepath.Join(folder, kind+".json")); err != nil {
				return nil, fmt.Errorf("%s: holds no finished %s, and no shards of one", folder, what)
			}
			if !slices.Contains(list, filepath.Clean(folder)) {
				list = append(list, filepath.Clean(folder))
			}
		}
	}
	return list, nil
}

// OnceEach returns an error if a key is varied twice.
func OnceEach(vary []Variation) error {
	for i, v := range vary {
		if slices.ContainsFunc(vary[:i], func(before Variation) bool { return before.Key == v.Key }) {
			return fmt.Errorf("--vary %s is given twice; give all its values at once", v.Key)
		}
	}
	return nil
}
