package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"psim/internal/csvfile"
	"psim/internal/files"
)

// WriteJSON writes the result as an indented JSON object.
func (r Result) WriteJSON(w io.Writer) error { return files.WriteJSON(w, r.Writable()) }

// Writable replaces what JSON cannot express, and writes lists that are always
// there as empty rather than null.
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

// ReadResult reads a result.json. Fields that it does not know are skipped,
// because a measured result has more of them.
func ReadResult(r io.Reader) (Result, error) {
	data, err := io.ReadAll(io.LimitReader(r, MostJSON+1))
	if err != nil {
		return Result{}, err
	}
	trimmed := bytes.TrimSpace(data)
	switch {
	case len(data) > MostJSON:
		return Result{}, errors.New("larger than 1 GiB; a result.json is needed")
	case len(trimmed) == 0:
		return Result{}, errors.New("the file is empty; a result.json is needed")
	case trimmed[0] != '{' || bytes.IndexByte(data, 0) >= 0:
		return Result{}, errors.New("not a JSON object in UTF-8; a result.json is needed, as psim run --out DIR writes it")
	}
	result := Result{Bubble: Unknown()}
	if err := json.Unmarshal(data, &result); err != nil {
		return Result{}, jsonError(data, err)
	}
	if err := result.Validate(); err != nil {
		return result, err
	}
	if !result.Bubble.IsZero() && math.IsNaN(result.Bubble.Span) {
		result.Bubble.Span = 0
	}
	result.upgrade()
	return result, nil
}

// ReadJSON reads a file of one JSON object, which may have so many bytes.
func ReadJSON(r io.Reader, most int64, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, most))
	switch {
	case err != nil:
		return err
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("the file is empty: run again what wrote it")
	}
	if err = json.Unmarshal(data, into); err != nil {
		err = jsonError(data, err)
	}
	return err
}

// mostJSON bounds the bytes of a file of JSON.
const MostJSON = 1 << 30

// jsonError adds the place to an error of encoding/json.
func jsonError(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var offset int64
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
		if int(offset) >= len(data) {
			err = errors.New("the JSON ends too early")
		}
		err = errors.New(err.Error() + csvfile.Damaged)
	case errors.As(err, &kind):
		offset = kind.Offset
		value, _, _ := strings.Cut(kind.Value, " ")
		err = fmt.Errorf("%s is a JSON %s; it must be %s", kind.Field, value, expected(kind.Type.Kind()))
	default:
		return err
	}
	before := string(data[:min(int(offset), len(data))])
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %s", line, max(1, column), strings.TrimPrefix(err.Error(), "json: "))
}

// expected names the JSON that a kind of Go value is read from.
func expected(kind reflect.Kind) string {
	switch kind {
	case reflect.Int, reflect.Int64:
		return "a whole number below 2⁶³"
	case reflect.Float64:
		return "a number below 1.8e308"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// longest limits times, in seconds: the 292 years that a trace can hold,
// and low enough that sums and percentages of them stay finite.
const longest = 9.2e9

// Validate reports what keeps a JSON object from being a result.
func (r Result) Validate() error {
	switch {
	case r.Schema < 0 || r.Schema > Schema:
		return fmt.Errorf("schema is %d; this psim reads results up to %d, so a newer one has written it", r.Schema, Schema)
	case r.Kind == "":
		return fmt.Errorf("kind is missing, which a result.json of psim run or exec has: %q or %q", Predicted, Measured)
	case r.Kind != Predicted && r.Kind != Measured:
		return fmt.Errorf("kind is %q; a result has kind %q or %q", r.Kind, Predicted, Measured)
	case outside(r.StepTime) || outside(r.Makespan):
		return fmt.Errorf("step_time_s or makespan_s is negative or above %g", longest)
	case !r.Bubble.IsZero() && !(math.Abs(r.Bubble.Makespan) < longest) || math.Abs(r.Bubble.Span) > longest:
		return fmt.Errorf("bubble is beyond %g", longest)
	case len(r.Ranks) == 0:
		return errors.New("ranks is empty or missing; a result has one entry per rank")
	case negative(r.Stages, r.VirtualStages, r.Microbatches, r.DataParallel, r.TensorParallel, r.ContextParallel, r.ExpertParallel, r.Tasks):
		return errors.New("stages, virtual_stages, microbatches, data_parallel, tensor_parallel, context_parallel, expert_parallel or tasks is negative")
	}
	for i, rank := range r.Ranks {
		if outside(rank.Compute, rank.Communication, rank.ExposedCommunication, rank.Optimizer, rank.Idle, OrZero(rank.Dispatch)) {
			return fmt.Errorf("ranks[%d]: a time is negative or above %g", i, longest)
		}
		if negative(rank.PeakMemory, rank.PersistentMemory, rank.MemoryCapacity, rank.SentBytes, int64(rank.PeakInFlight)) {
			return fmt.Errorf("ranks[%d]: a number of bytes, or peak_in_flight, is negative", i)
		}
	}
	if m := r.Measurement; m != nil && outside(append([]float64{m.StepTimeMean, m.StepTimeStd, m.StepTimeMedian}, m.Steps...)...) {
		return fmt.Errorf("steps, or their mean, deviation or median, holds a time that is negative or above %g", longest)
	}
	if r.Predicted != nil {
		if err := r.Predicted.Validate(); err != nil {
			return fmt.Errorf("predicted: %w", err)
		}
	}
	for i := range r.Runs {
		if err := r.Runs[i].Validate(); err != nil {
			return fmt.Errorf("runs[%d]: %w", i, err)
		}
	}
	return nil
}

// negative reports whether any of some counts is.
func negative[N int | int64](counts ...N) bool {
	return slices.ContainsFunc(counts, func(n N) bool { return n < 0 })
}

// outside reports whether any of some values, in seconds, cannot be a time.
func outside(times ...float64) bool {
	return slices.ContainsFunc(times, func(t float64) bool { return t < 0 || t > longest })
}
