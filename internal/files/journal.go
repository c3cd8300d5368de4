package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A Journal is a file to which one process at a time appends lines, each with a checksum. A kill loses
// none of the lines that were appended.
type Journal struct {
	f    *os.File
	undo func() // removes folders that were made for the journal
}

// A Line is a line of a journal. It is damaged if its checksum is not that of its text.
type Line struct {
	Text    []byte
	Damaged bool
}

// ErrBusy says that another process has a journal open, or writes into a folder.
var ErrBusy = errors.New("another psim is writing there; wait until it ends, or name another folder")

// ErrForeignJournal says that a file with a journal's name was not written by psim.
var ErrForeignJournal = errors.New("is not one that psim has written; remove the file, or name another folder")

// OpenJournal opens a journal and returns its lines, or makes a new journal and its folder. It drops a
// last line that a kill has cut off. A file that does not begin with head is left alone, and is an
// error.
func OpenJournal(path, head string) (*Journal, []Line, error) {
	undo, err := makeFolder(filepath.Dir(path))
	if err == nil {
		var j *Journal
		var lines []Line
		if j, lines, err = openJournal(path, head); err == nil {
			j.undo = undo
			return j, lines, nil
		}
	}
	undo()
	if errors.Is(err, ErrBusy) {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	if errors.Is(err, ErrForeignJournal) {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return nil, nil, Unwritable{fmt.Errorf("%s: cannot be written: %s", path, Reason(err))}
}

func openJournal(path, head string) (*Journal, []Line, error) {
	for {
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, nil, ErrForeignJournal
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return nil, nil, err
		}
		if !lockFile(f, false) {
			f.Close()
			return nil, nil, ErrBusy
		}
		opened, err := f.Stat()
		if now, problem := os.Stat(path); err == nil && (problem != nil || !os.SameFile(opened, now)) {
			f.Close() // the process that had it open has removed it
			continue
		}
		lines, err := wholeLines(f, head)
		if err != nil {
			f.Close()
			return nil, nil, err
		}
		return &Journal{f: f}, lines, nil
	}
}

// wholeLines reads the complete lines of a file, and cuts off the rest.
func wholeLines(f *os.File, head string) (lines []Line, err error) {
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	if begins := data[:min(len(data), len(head))]; string(begins) != head[:len(begins)] {
		return nil, ErrForeignJournal
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole < len(data) {
		if err := f.Truncate(int64(whole)); err != nil {
			return nil, err
		}
	}
	for line := range bytes.Lines(data[:whole]) {
		text, sum, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"))
		lines = append(lines, Line{text, string(sum) != checksum(text)})
	}
	return lines, nil
}

// checksum returns the checksum of a line, which the journal has behind a tab.
func checksum(line []byte) string { return hash(line)[:16] }

// Append adds a line in one step. The line must not have line breaks or tabs.
func (j *Journal) Append(line []byte) error {
	_, err := fmt.Fprintf(j.f, "%s\t%s\n", line, checksum(line))
	if err != nil {
		return fmt.Errorf("%s: cannot be written: %s", j.f.Name(), Reason(err))
	}
	return nil
}

// Close closes the journal and keeps its file.
func (j *Journal) Close() error { return j.f.Close() }

// Remove closes and removes the journal, and the folders that were made for it if they are empty.
func (j *Journal) Remove() error {
	err := errors.Join(os.Remove(j.f.Name()), j.f.Close())
	j.undo()
	return err
}
