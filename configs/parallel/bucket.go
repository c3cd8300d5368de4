package parallel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"psim/internal/units"
)

// BucketBy is the limit of a gradient bucket: in bytes, or in gradients. The zero value sends every
// tensor by itself.
type BucketBy struct{ Bytes, Gradients int64 }

// inGradients follows the number of gradients.
const inGradients = " gradients"

// UnmarshalTOML reads a size, a number of gradients, or "tensor".
func (b *BucketBy) UnmarshalTOML(value any) error {
	switch value.(type) {
	case []any, map[string]any:
		return errors.New(`must be one string: a size such as "25MB", "40000000 gradients", or "tensor"`)
	}
	text := fmt.Sprint(value)
	if text == "tensor" {
		*b = BucketBy{}
		return nil
	}
	if number, ok := strings.CutSuffix(text, inGradients); ok {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 || n > maxGradients {
			return fmt.Errorf(`%q: must be a whole number of gradients, such as "40000000 gradients"`, text)
		}
		*b = BucketBy{Gradients: n}
		return nil
	}
	size, err := units.ParseBytes(text)
	if err != nil {
		return fmt.Errorf(`%w (or "40000000 gradients", or "tensor": one collective per parameter tensor)`, err)
	}
	if size == 0 {
		return errors.New(`a bucket of 0 bytes; write "tensor" to send every parameter tensor by itself`)
	}
	*b = BucketBy{Bytes: int64(size)}
	return nil
}

// maxGradients bounds the gradients of a bucket, so that their bytes can be counted.
const maxGradients = 1 << 50

// TOML writes what UnmarshalTOML reads.
func (b BucketBy) TOML() any {
	switch {
	case b.Gradients > 0:
		return strconv.FormatInt(b.Gradients, 10) + inGradients
	case b.Bytes > 0:
		return units.Bytes(b.Bytes).String()
	}
	return "tensor"
}
