package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// wait waits until no other process is moving files in the folder, keeps others from it until p is
// closed, and finishes the moves of a process that was killed.
func (p *place) wait() error {
	err := p.hold(true)
	if err == nil && p.sum(staging) != nothing {
		if err = p.hold(false); err == nil {
			return p.finish()
		}
	}
	return unwritable(p.Name(), "written", err)
}

// finish settles the folder, unless something in the staging folder is not psim's. The folder must be
// held.
func (p place) finish() error {
	if !p.ownsStaging() {
		return fmt.Errorf("%s: %s was not made by psim in this folder; move it away, or name another folder",
			p.Name(), staging)
	}
	return unwritable(p.Name(), "written", p.settle())
}

// ownsStaging reports whether the staging folder holds nothing but a plan that was made for it, and files of
// that plan. A kill may have cut off the last of them, unless the plan is in force.
func (p place) ownsStaging() bool {
	if is := p.sum(staging); is != aFolder {
		return is == nothing
	}
	var now plan
	ours := map[string]string{}
	if text := p.text(planFile); json.Unmarshal(text, &now) == nil {
		if now.Inode != p.inode(staging) {
			return false
		}
		ours[planFile], ours[staging+"/"+Manifest] = hash(text), now.Manifest
		for _, m := range now.Moves {
			ours[staging+"/"+m.Name] = m.New
		}
	} else if begins := `{"manifest":"`; strings.HasPrefix(string(text), begins[:min(len(begins), len(text))]) {
		now = plan{}
		ours[planFile] = hash(text)
	}
	inForce := now.Manifest == p.sum(Manifest)
	return nil == fs.WalkDir(p.FS(), staging, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		is := p.sum(name)
		if want, ok := ours[name]; !ok || len(is) != hashLength || inForce && is != want {
			return errors.New("is not psim's")
		}
		return nil
	})
}

// settle carries out the plan in which a process was killed, or removes what is left of one that is not
// in force. The folder must be held.
func (p place) settle() error {
	var now plan
	if json.Unmarshal(p.text(planFile), &now) == nil && now.Manifest == p.sum(Manifest) {
		for _, m := range now.Moves {
			if err := p.move(m); err != nil {
				return err
			}
		}
	}
	return p.clear(now)
}

// clear removes the staging folder, and the plan last, so that a kill leaves nothing that is in no plan.
func (p place) clear(now plan) error {
	for _, m := range append(now.Moves, move{Name: Manifest}) {
		if filepath.IsLocal(m.Name) {
			p.Remove(staging + "/" + m.Name)
		}
	}
	return p.RemoveAll(staging)
}

// move makes one move, unless the file has other bytes by now.
func (p place) move(m move) error {
	is := p.sum(m.Name)
	if is != m.Old || is == aFolder || is == blocked || !filepath.IsLocal(m.Name) {
		return nil
	}
	if m.New != nothing {
		if p.sum(staging+"/"+m.Name) != nothing { // otherwise it was made already
			return p.Rename(staging+"/"+m.Name, m.Name)
		}
		return nil
	}
	if len(is) != hashLength { // psim did not write it
		return nil
	}
	err := p.Remove(m.Name)
	for above := path.Dir(m.Name); err == nil && above != "." && p.Remove(above) == nil; above = path.Dir(above) {
	}
	return err
}
