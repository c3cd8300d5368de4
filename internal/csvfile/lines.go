package csvfile

import (
	"bytes"
	"fmt"
	"io"
)

// longestLine bounds the bytes of a row.
const longestLine = 1 << 20

// lines is a reader that refuses longer lines, which readers of lines would keep in memory whole.
type lines struct {
	from           io.Reader
	longest, bytes int // of a line, and those since the last line break
}

// LimitLines returns a reader that fails at a line of more than a number of bytes.
func LimitLines(r io.Reader, longest int) io.Reader { return &lines{from: r, longest: longest} }

func (l *lines) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if l.bytes += end; end < 0 {
			l.bytes += len(rest) + 1
			end = len(rest) - 1
		}
		if l.bytes > l.longest {
			return 0, fmt.Errorf("a line has more than %d bytes, which is too many", l.longest)
		}
		if rest[end] == '\n' {
			l.bytes = 0
		}
		rest = rest[end+1:]
	}
	return n, err
}
