package files

import (
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"slices"
)

// staging is the folder in a folder that holds new files, under their names, until they are moved into
// place. What is in it and in no plan is not psim's.
const staging = ".psim-new"

// A plan is saved with the new files. It is in force from the moment at which the manifest in the folder
// is the new one. Whoever comes after a kill carries it out. It is believed only in the staging folder for
// which it was made: a folder that came from elsewhere, plan and all, has another inode.
type plan struct {
	Manifest string `json:"manifest"` // hash of the new manifest
	Inode    uint64 `json:"inode"`    // of the staging folder
	Moves    []move `json:"moves"`
}

// A move replaces the bytes with one hash by those with another.
type move struct {
	Name string `json:"name"`
	Old  string `json:"old"` // nothing for a new file
	New  string `json:"new"` // nothing to remove the file
}

const planFile = staging + "/.psim-plan.json"

// change replaces the files of the owner by others.
func (f Folder) change(p place, list []File, contents []*content) error {
	var names []string
	hashes, data := map[string]string{}, map[string]*content{}
	for i, file := range list {
		names = append(names, file.Path)
		data[file.Path], hashes[file.Path] = contents[i], contents[i].sum()
	}
	if err := f.guard(p, names, hashes); err != nil {
		return err
	}
	m, _ := p.manifest()
	before, set := m.Sets[f.Owner], fileSet{Partial: f.Partial, Files: map[string]string{}}
	var moves []move
	for _, name := range names {
		is := p.sum(name)
		same := is == hashes[name]
		if same && !f.Overwrite && m.owner(name) != f.Owner {
			continue // the same bytes of somebody else stay theirs
		}
		for _, other := range m.Sets {
			delete(other.Files, name)
		}
		set.Files[name] = hashes[name]
		if !same {
			moves = append(moves, move{name, is, hashes[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Files)) {
		if is := before.Files[name]; hashes[name] == nothing && f.stays(name, hashes) {
			set.Files[name] = is
		} else if hashes[name] == nothing && f.writes(name) && p.sum(name) == is {
			moves = append(moves, move{name, is, nothing})
		}
	}
	m.Sets[f.Owner] = set
	named := f.Path
	if f.Named {
		named = filepath.Join(f.Path, names[0])
	}
	return unwritable(named, "written", p.replace(m, moves, data))
}

// replace makes the moves. It saves everything in the staging folder before it touches another file.
func (p place) replace(m manifest, moves []move, data map[string]*content) error {
	text, err := m.text()
	if err != nil || len(moves) == 0 && hash(text) == p.sum(Manifest) {
		return err
	}
	now := plan{Manifest: hash(text), Moves: moves}
	made, err := p.stage(now, data)
	if err == nil {
		err = p.save(staging+"/"+Manifest, text)
	}
	if err == nil {
		err = p.Rename(staging+"/"+Manifest, Manifest)
	}
	if err == nil {
		return p.settle()
	}
	p.clear(now)
	for _, folder := range slices.Backward(made) {
		p.Remove(folder) // only if it is empty
	}
	return err
}

// stage saves a plan, which says what in the staging folder is psim's, then its new files, and then makes
// the folders that are missing.
func (p place) stage(now plan, data map[string]*content) (made []string, err error) {
	if err := p.makeAbove(planFile); err != nil {
		return nil, err
	}
	now.Inode = p.inode(staging)
	text, err := json.Marshal(now)
	if err == nil {
		err = p.save(planFile, text)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range now.Moves {
		if m.New == nothing {
			continue
		}
		if err := p.makeAbove(staging + "/" + m.Name); err != nil {
			return nil, err
		}
		if err := data[m.Name].copyTo(p.OpenFile(staging+"/"+m.Name, newFile, 0o666)); err != nil {
			return nil, err
		}
	}
	for _, m := range now.Moves {
		for i, c := range m.Name {
			if c != '/' || err != nil || m.New == nothing || p.sum(m.Name[:i]) == aFolder {
				continue
			}
			if err = p.Mkdir(m.Name[:i], 0o777); err == nil {
				made = append(made, m.Name[:i])
			}
		}
	}
	return made, err
}

// save writes a file below the staging folder, with the permissions of the umask.
func (p place) save(name string, data []byte) error {
	if err := p.makeAbove(name); err != nil {
		return err
	}
	return p.WriteFile(name, data, 0o666)
}

// makeAbove makes the folders above a file.
func (p place) makeAbove(name string) error { return p.MkdirAll(path.Dir(name), 0o777) }
