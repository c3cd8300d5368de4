package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A Journal is a file to which one process at a time appends lines. A kill loses none of the lines
// that were appended.
type Journal struct {
	f    *os.File
	undo func() // removes folders that were made for the journal
}

// ErrJournalBusy says that another process has a journal open.
var ErrJournalBusy = errors.New("another psim is writing there")

// ErrForeignJournal says that a file with a journal's name was not written by psim.
var ErrForeignJournal = errors.New("is not one that psim has written; remove the file, or name another folder")

// OpenJournal opens a journal and returns its lines, or makes a new journal and its folder. It drops a
// last line that a kill has cut off. A file that does not begin with head is left alone, and is an
// error.
func OpenJournal(path, head string) (*Journal, [][]byte, error) {
	undo, err := makeFolder(filepath.Dir(path))
	if err == nil {
		var j *Journal
		var lines [][]byte
		if j, lines, err = openJournal(path, head); err == nil {
			j.undo = undo
			return j, lines, nil
		}
	}
	undo()
	if errors.Is(err, ErrJournalBusy) {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	if errors.Is(err, ErrForeignJournal) {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return nil, nil, Unwritable{fmt.Errorf("%s: cannot be written: %s", path, Reason(err))}
}

func openJournal(path, head string) (*Journal, [][]byte, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
		if err != nil {
			return nil, nil, err
		}
		if !lockFile(f) {
			f.Close()
			return nil, nil, ErrJournalBusy
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
func wholeLines(f *os.File, head string) ([][]byte, error) {
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
	if whole == 0 {
		return nil, nil
	}
	return bytes.Split(data[:whole-1], []byte("\n")), nil
}

// Append adds a line in one step. The line must not have line breaks.
func (j *Journal) Append(line []byte) error {
	_, err := j.f.Write(append(line, '\n'))
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
