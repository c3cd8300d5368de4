package reports

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

type csvWriter struct {
	*csv.Writer
	cells []string
}

func newCSVWriter(w io.Writer, columns string) *csvWriter {
	c := &csvWriter{Writer: csv.NewWriter(w)}
	c.Write(strings.Split(columns, ","))
	return c
}

// row writes a row. An error is kept until the end.
func (c *csvWriter) row(cells ...any) {
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

// end writes what is left, and returns the first error.
func (c *csvWriter) end() error {
	c.Flush()
	return c.Error()
}
