package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// Manifest is the name of the file in a folder that lists the files that psim wrote there, with
// their hashes, by command.
const Manifest = ".psim.json"

// staging is the name of the folder in which new files are saved before they are moved into place,
// if a folder cannot be swapped as a whole.
const staging = ".psim-new"

type manifest struct {
	Sets map[string]fileSet `json:"sets"`
}

// A fileSet lists the files that one command wrote: hashes by name.
type fileSet struct {
	Partial bool              `json:"partial,omitempty"`
	Files   map[string]string `json:"files"`
}

// manifestText returns the text of a folder's manifest, or nil without a manifest.
func manifestText(folder string) []byte {
	text, _ := Read(filepath.Join(folder, Manifest), func(r io.Reader) ([]byte, error) {
		return io.ReadAll(io.LimitReader(r, 16<<20))
	})
	return text
}

// readManifest reads the manifest of a folder. It is empty if the folder has no valid one.
func readManifest(folder string) manifest {
	var m manifest
	if json.Unmarshal(manifestText(folder), &m) != nil || m.Sets == nil {
		return manifest{Sets: map[string]fileSet{}}
	}
	for owner, set := range m.Sets {
		for name := range set.Files {
			if !filepath.IsLocal(filepath.FromSlash(name)) {
				delete(set.Files, name)
			}
		}
		m.Sets[owner] = set
	}
	return m
}

// owners returns the command that wrote each file.
func (m manifest) owners() map[string]string {
	owners := map[string]string{}
	for owner, set := range m.Sets {
		for name := range set.Files {
			owners[name] = owner
		}
	}
	return owners
}

func (m manifest) write(folder string) error {
	var text bytes.Buffer
	if err := WriteJSON(&text, m); err != nil {
		return err
	}
	return writeFile(filepath.Join(folder, Manifest), text.Bytes())
}

// written finds the folder, or a folder above it, that has a manifest, and the path from there.
func written(folder string) (root, prefix string) {
	root = folder
	if full, err := filepath.Abs(folder); err == nil {
		root = full
	}
	at, way := root, ""
	for range 3 { // a folder may have a folder for each mode, and that one for the prediction
		if _, err := os.Stat(filepath.Join(at, Manifest)); err == nil {
			return at, way
		}
		at, way = filepath.Dir(at), filepath.Base(at)+"/"+way
	}
	return root, ""
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// Verify refuses files of a folder that psim did not write together: files whose hashes differ from
// those in the manifest of the folder or of a folder above. It accepts files without a manifest, and
// missing files.
func Verify(folder string, names ...string) error {
	root, prefix := written(folder)
	listed := map[string]string{}
	for _, set := range readManifest(root).Sets {
		for name, sum := range set.Files {
			listed[name] = sum
		}
	}
	for _, name := range names {
		want, ok := listed[path.Join(prefix, name)]
		if !ok {
			continue
		}
		data, err := Read(filepath.Join(folder, name), io.ReadAll)
		if err == nil && hash(data) != want {
			return fmt.Errorf("%s: %s is not the one that psim wrote with the other files there; run it again",
				folder, name)
		}
	}
	return nil
}
