package files

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"
)

// A place is an open folder. A name in it never leads out of it, and links in it are not followed.
type place struct {
	*os.Root
	lock *os.File
}

// openPlace opens a folder.
func openPlace(path string) (place, error) {
	root, err := os.OpenRoot(path)
	return place{Root: root}, err
}

// Close closes the folder and releases its lock.
func (p *place) Close() {
	if p.lock != nil {
		p.lock.Close()
	}
	p.Root.Close()
}

// patience limits how long hold waits for another process.
const patience = 30 * time.Second

// hold keeps other processes of psim from writing into the folder until p is closed. A hold that is not
// shared also waits for processes that read. The system releases it when the process ends for any reason.
func (p *place) hold(shared bool) (err error) {
	if p.lock == nil {
		if p.lock, err = p.Open("."); err != nil {
			return err
		}
	}
	for end := time.Now().Add(patience); !lockFile(p.lock, shared); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return ErrBusy
		}
	}
	return nil
}

// claim makes a folder if it is missing, and opens and holds it. undo removes what it made, if it is empty.
func claim(path string) (p place, undo func(), err error) {
	for {
		if undo, err = makeFolder(path); err != nil {
			undo()
			return p, nil, unwritable(path, "made", err)
		}
		if p, err = openPlace(path); err == nil {
			if err = p.hold(false); err == nil {
				now, problem := os.Stat(path)
				if held, err := p.Stat("."); err == nil && problem == nil && os.SameFile(held, now) {
					return p, undo, nil
				}
			}
			p.Close() // a process that failed has removed it, or err
		}
		if err != nil && !os.IsNotExist(err) {
			undo()
			return p, nil, unwritable(path, "written", err)
		}
	}
}

// What sum returns in place of a hash.
const (
	nothing = ""
	aFolder = "is a folder"
	noFile  = "is not a regular file" // but a link, say
	blocked = "is below a link or a file"
	closed  = "cannot be read"
)

// sum returns the hash of a file in the folder, or what there is instead of it.
func (p place) sum(name string) string {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := p.Lstat(name[:i]); err == nil && !info.IsDir() {
			return blocked
		}
	}
	info, err := p.Lstat(name)
	switch {
	case err != nil:
		return nothing
	case info.IsDir():
		return aFolder
	case !info.Mode().IsRegular():
		return noFile
	}
	f, err := p.Open(name)
	if err != nil {
		return closed
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return closed
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// inode returns the number that the system gave a folder, which nobody chooses. It is 0 where there is none.
func (p place) inode(name string) uint64 {
	info, err := p.Lstat(name)
	if err != nil {
		return 0
	}
	return inodeOf(info)
}

// hashLength is the length of a hash.
const hashLength = 2 * sha256.Size

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
