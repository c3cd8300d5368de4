package files

import (
	"encoding/json"
	"io"
)

// WriteJSON writes an indented JSON value.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
