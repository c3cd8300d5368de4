package profiles

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"psim/internal/files"
)

// Bounds of what is read. A trace is streamed, so that only a single string is held as a whole, and what is kept of
// each kernel.
const (
	mostString  = 64 << 20
	mostKernels = 1 << 24
)

var errLongString = fmt.Errorf("a string or number has more than %d MB", mostString>>20)

// Read reads the trace in a file, which may be compressed by gzip.
func Read(ctx context.Context, name string) (*RankProfile, error) {
	p, err := files.Read(name, func(r io.Reader) (*RankProfile, error) { return parse(ctx, r) })
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%s: no such file", name)
	}
	if err != nil {
		return nil, err
	}
	p.Name = name
	if p.Rank < 0 {
		p.Rank = rankIn(filepath.Base(name))
	}
	return p, nil
}

// rankIn returns the rank that the name of a file says, or -1.
func rankIn(name string) int {
	if m := regexp.MustCompile(`(?i)rank[-_]?(\d{1,9})`).FindStringSubmatch(name); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return -1
}

// parse reads a trace.
func parse(ctx context.Context, text io.Reader) (*RankProfile, error) {
	buffered := bufio.NewReaderSize(text, 1<<20)
	plain := io.Reader(buffered)
	if magic, err := buffered.Peek(2); err == nil && string(magic) == "\x1f\x8b" {
		zipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, unreadable(err, 0)
		}
		plain = zipped
	}
	bounded := &bounded{r: plain}
	r := newReader(ctx, jsontext.NewDecoder(
		bounded, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true),
	))
	bounded.offset = r.json.InputOffset
	if err := r.document(); err != nil {
		return nil, unreadable(err, r.json.InputOffset())
	}
	// The end of a compressed file has its checksum.
	if _, err := r.json.ReadToken(); err == nil {
		return nil, said("byte %d: has more after its object; a trace is one object", r.json.InputOffset())
	} else if !errors.Is(err, io.EOF) {
		return nil, unreadable(err, r.json.InputOffset())
	}
	return r.finish()
}

// A bounded reader ends with an error where a decoder has to hold too much.
type bounded struct {
	r      io.Reader
	read   int64
	offset func() int64 // up to where the decoder is done
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read-b.offset() > mostString {
		return 0, errLongString
	}
	n, err := b.r.Read(p)
	b.read += int64(n)
	return n, err
}

// unreadable says in one sentence why a text is not a trace.
func unreadable(err error, offset int64) error {
	var syntax *jsontext.SyntacticError
	var said saidError
	switch {
	case errors.As(err, &said) || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errLongString):
		return fmt.Errorf("byte %d of the JSON: %w; no trace has such", offset, errLongString)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fmt.Errorf("ends in the middle, at byte %d of the JSON: the file was cut off", offset)
	case errors.As(err, &syntax):
		return fmt.Errorf("byte %d: is not JSON: %w", syntax.ByteOffset, syntax.Err)
	case errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("its gzip is damaged: %w", gzip.ErrChecksum)
	case errors.Is(err, gzip.ErrHeader):
		return fmt.Errorf("its gzip is damaged: %w", gzip.ErrHeader)
	}
	return fmt.Errorf("byte %d of the JSON: %w", offset, err)
}

// A saidError is one that says what is wrong with a trace; it needs no place.
type saidError string

func (e saidError) Error() string { return string(e) }

// said makes an error of words.
func said(format string, args ...any) error { return saidError(fmt.Sprintf(format, args...)) }
