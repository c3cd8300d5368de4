package csvfile

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Writer writes a CSV file row by row. The first error is kept until the end.
type Writer struct {
	out *bufio.Writer
	row []byte // the cells of the row so far
}

// NewWriter writes the header, the columns with commas between them.
func NewWriter(w io.Writer, columns string) *Writer {
	c := &Writer{out: bufio.NewWriterSize(w, 1<<16)}
	for name := range strings.SplitSeq(columns, ",") {
		c.Text(name)
	}
	c.EndRow()
	return c
}

// Row writes a row.
func (c *Writer) Row(cells ...any) {
	for _, x := range cells {
		switch x := x.(type) {
		case int64: // most cells, and much faster than by fmt
			c.Int(x)
		case string:
			c.Text(x)
		default:
			c.Text(fmt.Sprint(x))
		}
	}
	c.EndRow()
}

// Int adds a whole number to the row.
func (c *Writer) Int(n int64) { c.row = append(strconv.AppendInt(c.row, n, 10), ',') }

// Text adds a cell to the row, in quotation marks if it needs them.
func (c *Writer) Text(cell string) {
	if needsQuotes(cell) {
		cell = `"` + strings.ReplaceAll(cell, `"`, `""`) + `"`
	}
	c.row = append(append(c.row, cell...), ',')
}

// needsQuotes decides as encoding/csv does.
func needsQuotes(cell string) bool {
	first, _ := utf8.DecodeRuneInString(cell)
	return cell == `\.` || strings.ContainsAny(cell, ",\"\r\n") || unicode.IsSpace(first)
}

// EndRow writes the cells that were added as a row.
func (c *Writer) EndRow() {
	if n := len(c.row); n > 0 {
		c.row[n-1] = '\n'
	}
	c.out.Write(c.row)
	c.row = c.row[:0]
}

// End writes what is left, and returns the first error.
func (c *Writer) End() error { return c.out.Flush() }
