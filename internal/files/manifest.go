package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
)

// Manifest is the name of the file in a folder that lists the files that psim wrote there, with
// their hashes, by command.
const Manifest = ".psim.json"

type manifest struct {
	Sets map[string]fileSet `json:"sets"`
}

// A fileSet lists the files that one command wrote: hashes by name.
type fileSet struct {
	Partial bool              `json:"partial,omitempty"`
	Files   map[string]string `json:"files"`
}

// manifest reads the manifest of the folder. It is empty if there is none, or none of psim's.
func (p place) manifest() (m manifest, err error) {
	if p.sum(Manifest) != nothing && json.Unmarshal(p.text(Manifest), &m) != nil || m.Sets == nil {
		m.Sets = map[string]fileSet{}
		if p.sum(Manifest) != nothing {
			err = fmt.Errorf("%s: %s was not written by psim; "+
				"name another folder, or replace it with --overwrite", p.Name(), Manifest)
		}
	}
	for _, set := range m.Sets {
		maps.DeleteFunc(set.Files, func(_, is string) bool { return len(is) != hashLength })
	}
	return m, err
}

// text returns the text of a manifest.
func (m manifest) text() ([]byte, error) {
	var text bytes.Buffer
	err := WriteJSON(&text, m)
	return text.Bytes(), err
}

// text reads a short file of the folder, nil if it cannot be read.
func (p place) text(name string) []byte {
	if is := p.sum(name); len(is) != hashLength {
		return nil
	}
	f, err := p.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 16<<20))
	return text
}

// owner returns the command that wrote a file, "" for none.
func (m manifest) owner(name string) string {
	for owner, set := range m.Sets {
		if _, ok := set.Files[name]; ok {
			return owner
		}
	}
	return ""
}

// written opens the folder, or one above it, that has a manifest, and returns the path from there.
func written(folder string) (p place, prefix string, err error) {
	at, way := folder, ""
	if full, err := filepath.Abs(folder); err == nil {
		at = full
	}
	for range 3 { // a folder may have a folder for each mode, and that one for the prediction
		if Exists(filepath.Join(at, Manifest)) {
			p, err = openPlace(at)
			return p, way, err
		}
		at, way = filepath.Dir(at), filepath.Base(at)+"/"+way
	}
	p, err = openPlace(folder)
	return p, "", err
}

// WrittenBy returns the command that wrote a file, by the manifest of its folder or of one above, "" for
// none.
func WrittenBy(path string) string {
	p, prefix, err := written(filepath.Dir(path))
	if err != nil {
		return ""
	}
	defer p.Close()
	m, _ := p.manifest()
	return m.owner(prefix + filepath.Base(path))
}

// Verify refuses files of a folder that psim did not write together: those that one command wrote have the
// hashes in the manifest of the folder, or of a folder above, and no others belong to them. It accepts
// missing files, and files that are all in no manifest.
func Verify(folder string, names ...string) error {
	p, prefix, err := written(folder)
	if err != nil {
		return nil
	}
	defer p.Close()
	m, _ := p.manifest()
	owner := ""
	for _, name := range names {
		if owner == "" {
			owner = m.owner(prefix + name)
		}
	}
	for _, name := range names {
		if is := p.sum(prefix + name); owner != "" && is != nothing && is != m.Sets[owner].Files[prefix+name] {
			return fmt.Errorf("%s: %s is not the one that psim wrote with the other files there; run it again",
				folder, name)
		}
	}
	return nil
}

// Steady reads several files of a folder that psim wrote together. If they are replaced meanwhile, or
// if read returns an error, which may be a consequence, it waits for the process that writes, finishes
// what a killed one has begun, and reads once more.
func Steady[T any](folder string, read func() (T, error)) (T, error) {
	p, _, err := written(folder)
	if err != nil {
		return read()
	}
	defer p.Close()
	before, moving := p.sum(Manifest), p.sum(staging)
	v, err := read()
	if err == nil && moving == nothing && p.sum(staging) == nothing && p.sum(Manifest) == before {
		return v, nil
	}
	if p.sum(staging) != nothing && p.ownsStaging() && CheckWritable(p.Name()) == nil && p.hold(false) == nil {
		p.finish()
	}
	p.hold(true)
	return read()
}
