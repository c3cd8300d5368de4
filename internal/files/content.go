package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	hashing "hash"
	"io"
	"os"
	"path/filepath"
)

// mostInMemory bounds the bytes of a rendered file that are kept in memory.
const mostInMemory = 4 << 20

// A content is a rendered file that is not in its place yet. If it is long, it is in a file without a
// name on the same disk, which is gone when the process ends for any reason.
type content struct {
	ctx    context.Context // ends the rendering
	folder string          // of the file
	memory bytes.Buffer
	disk   *os.File     // nil unless the content is too long for memory
	name   string       // of disk, where an open file cannot be removed
	hash   hashing.Hash // nil unless it will be asked for: a long file takes as long to hash as to write
	failed error        // of the disk
}

func newContent(ctx context.Context, path string, hashed bool) *content {
	c := &content{ctx: ctx, folder: filepath.Dir(path)}
	if hashed {
		c.hash = sha256.New()
	}
	return c
}

// Write appends to the content.
func (c *content) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.hash != nil {
		c.hash.Write(p)
	}
	if c.disk == nil && c.memory.Len()+len(p) > mostInMemory {
		c.move()
	}
	if c.disk != nil {
		n, err := c.disk.Write(p)
		c.failed = err
		return n, err
	}
	return c.memory.Write(p)
}

// move continues the content on disk. Where no file can be made, the content stays in memory, and
// whoever puts it into place finds out why.
func (c *content) move() {
	folder := c.folder
	for !IsFolder(folder) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
	}
	f, err := os.CreateTemp(folder, ".psim-*")
	if err != nil {
		return
	}
	c.disk, c.name = f, f.Name()
	if os.Remove(c.name) == nil {
		c.name = ""
	}
	if _, err := c.disk.Write(c.memory.Bytes()); err != nil {
		c.close()
		return
	}
	c.memory = bytes.Buffer{}
}

// sum returns the hash of the content.
func (c *content) sum() string { return fmt.Sprintf("%x", c.hash.Sum(nil)) }

// copyTo writes the content to a file, which it closes.
func (c *content) copyTo(f *os.File, err error) error {
	if err != nil {
		return err
	}
	if c.disk == nil {
		_, err = f.Write(c.memory.Bytes())
	} else if _, err = c.disk.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(f, c.disk)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// close gives the disk back.
func (c *content) close() {
	if c.disk == nil {
		return
	}
	c.disk.Close()
	if c.name != "" {
		os.Remove(c.name)
	}
	c.disk = nil
}
