package results

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"

	"psim/internal/files"
	"psim/internal/jsonfile"
)

// WriteJSON writes the result as an indented JSON object.
func (r Result) WriteJSON(w io.Writer) error { return files.WriteJSON(w, r.Writable()) }

// Writable returns the result as files have it: lists that are never left out are empty
// rather than null, and a measurement notes whether a number is NaN or infinite.
func (r Result) Writable() Result {
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if r.Ranks == nil {
		r.Ranks = []RankResult{}
	}
	r.Measurement = r.Measurement.writable()
	if r.Predicted != nil {
		predicted := r.Predicted.Writable()
		r.Predicted = &predicted
	}
	r.Runs = slices.Clone(r.Runs)
	for i := range r.Runs {
		r.Runs[i] = r.Runs[i].Writable()
	}
	return r
}

// ReadResult reads a result.json. It skips unknown fields, since files of other versions may
// have more.
func ReadResult(r io.Reader) (Result, error) {
	data, err := io.ReadAll(io.LimitReader(r, jsonfile.MostBytes+1))
	if err != nil {
		return Result{}, err
	}
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(data) > jsonfile.MostBytes:
		return Result{}, errors.New("larger than 1 GiB; a result.json is needed")
	case len(trimmed) == 0:
		return Result{}, errors.New("the file is empty; a result.json is needed")
	case trimmed[0] != '{' || bytes.IndexByte(data, 0) >= 0:
		return Result{}, errors.New("not a JSON object in UTF-8; a result.json is needed, " +
			"as psim run --out DIR writes it")
	}
	result := Result{Bubble: UnknownBubble()}
	if err := jsonfile.Unmarshal(data, &result); err != nil {
		return Result{}, err
	}
	if err := result.Validate(); err != nil {
		return result, err
	}
	if !result.Bubble.IsZero() && math.IsNaN(result.Bubble.Span) {
		result.Bubble.Span = 0
	}
	result.upgrade()
	result.inLines()
	return result, nil
}
