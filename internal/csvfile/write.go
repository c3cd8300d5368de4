package csvfile

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Writer writes a CSV file row by row.
type Writer struct {
	*csv.Writer
	cells []string
}

// NewWriter writes the header, the columns with commas between them.
func NewWriter(w io.Writer, columns string) *Writer {
	c := &Writer{Writer: csv.NewWriter(w)}
	c.Write(strings.Split(columns, ","))
	return c
}

// Row writes a row. An error is kept until the end.
func (c *Writer) Row(cells ...any) {
	c.cells = c.cells[:0]
	for _, x := range cells {
		switch x := x.(type) {
		case int64: // most cells, and much faster than by fmt
			c.cells = append(c.cells, strconv.FormatInt(x, 10))
		case string:
			c.cells = append(c.cells, x)
		default:
			c.cells = append(c.cells, fmt.Sprint(x))
		}
	}
	c.Write(c.cells)
}

// End writes what is left, and returns the first error.
func (c *Writer) End() error {
	c.Flush()
	return c.Error()
}
