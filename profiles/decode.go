package profiles

import (
	"bytes"
	"context"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A reader takes a trace from a stream of JSON.
type reader struct {
	ctx  context.Context
	json *jsontext.Decoder
	made *RankProfile

	events int   // events so far
	now    event // the one that is read
	traced bool  // there was a list of events

	ids        map[string]int32 // of names
	classOf    [2][]Class       // by name, of operations and of kernels
	launches   []launched
	operations []kernel // of the CPU, until there is a kernel
	working    []span   // annotations of optimizers on the device
	steps      [2]map[int]span
	device     map[int64]int // kernels by device
	devices    []int64       // of kernels
	others     map[string]int
	runtime    bool // there was a call of CUDA or HIP
	threads    map[[2]string]int32
}

// A launched kernel has a number, and a time when the host asked for it.
type launched struct{ number, at int64 }

// An event is what is read of one.
type event struct {
	phase               byte
	category            category
	name, pid, tid, cat []byte
	start, length       int64
	started, lasts      bool
	call                call
	stream              bool
	device, correlation int64
}

// A category is what psim does with events.
type category uint8

const (
	unknownCategory category = iota
	noCategory               // without work
	deviceCategory           // kernels, copies
	deviceRanges
	hostRanges
	hostOperations
	hostLaunches
)

// categories has those of Kineto, and of its first versions.
var categories = map[string]category{
	"kernel": deviceCategory, "Kernel": deviceCategory, "gpu_memcpy": deviceCategory, "Memcpy": deviceCategory,
	"gpu_memset": deviceCategory, "Memset": deviceCategory, "gpu_user_annotation": deviceRanges,
	"user_annotation": hostRanges, "cpu_op": hostOperations, "Operator": hostOperations,
	"cuda_runtime": hostLaunches, "cuda_driver": hostLaunches, "Runtime": hostLaunches, "hip_runtime": hostLaunches,
	"xpu_runtime": hostLaunches, "fwdbwd": noCategory, "ac2g": noCategory, "async_cpu_to_gpu": noCategory,
	"async_gpu": noCategory, "python_function": noCategory, "cpu_instant_event": noCategory, "Trace": noCategory,
	"overhead": noCategory, "cuda_sync": noCategory, "cuda_profiler_range": noCategory, "cuda_event": noCategory,
}

func newReader(ctx context.Context, json *jsontext.Decoder) *reader {
	return &reader{
		ctx: ctx, json: json, made: &RankProfile{Rank: -1}, ids: map[string]int32{}, device: map[int64]int{},
		others: map[string]int{}, steps: [2]map[int]span{{}, {}}, threads: map[[2]string]int32{},
	}
}

// document reads the whole text.
func (r *reader) document() error {
	if kind := r.json.PeekKind(); kind == '[' {
		return said("is a list and no object; a trace of PyTorch's profiler is an object with traceEvents, " +
			"as prof.export_chrome_trace writes it")
	}
	err := r.object(func(key string) error {
		switch key {
		case "traceEvents":
			r.traced = true
			return r.list(r.event)
		case "distributedInfo":
			return r.object(r.distributed)
		case "deviceProperties":
			return r.list(func() error { return r.object(r.properties) })
		}
		return r.json.SkipValue()
	})
	if err == nil && !r.traced {
		return said("has no traceEvents, as a trace of PyTorch's profiler has (prof.export_chrome_trace)")
	}
	return err
}

// object reads an object, and calls field for each of its keys. Anything else is passed over.
func (r *reader) object(field func(key string) error) error {
	if r.json.PeekKind() != '{' {
		return r.json.SkipValue()
	}
	if _, err := r.json.ReadToken(); err != nil {
		return err
	}
	for r.json.PeekKind() == '"' {
		key, err := r.json.ReadValue()
		if err == nil {
			err = field(r.key(key))
		}
		if err != nil {
			return err
		}
	}
	_, err := r.json.ReadToken()
	return err
}

// list reads a list, and calls element for each of its values. Anything else is passed over.
func (r *reader) list(element func() error) error {
	if r.json.PeekKind() != '[' {
		return r.json.SkipValue()
	}
	if _, err := r.json.ReadToken(); err != nil {
		return err
	}
	for kind := r.json.PeekKind(); kind != ']' && kind != 0; kind = r.json.PeekKind() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := r.json.ReadToken()
	return err
}

// wanted are the keys that have an effect; they are kept, so that a key costs no memory of its own.
var wanted = map[string]string{}

func init() {
	for _, key := range []string{
		"traceEvents", "distributedInfo", "deviceProperties", "rank", "world_size", "name", "ph", "cat", "pid", "tid",
		"ts", "dur", "args", "stream", "device", "correlation", "Collective name", "Process Group Name",
		"Process Group Ranks", "Group size", "In msg nelems",
	} {
		wanted[key] = key
	}
}

// key returns a key that has an effect, or nothing.
func (r *reader) key(quoted []byte) string { return wanted[string(unquoted(quoted))] }

// unquoted returns the text of a JSON string.
func unquoted(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return v
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, v) // its only error is of UTF-8, which is replaced
	return text
}

// text reads a string, or the text of another value.
func (r *reader) text(into *[]byte) error {
	v, err := r.json.ReadValue()
	*into = append((*into)[:0], unquoted(v)...)
	return err
}

// whole reads a whole number; anything else is 0.
func (r *reader) whole(into *int64) error {
	v, err := r.json.ReadValue()
	*into, _ = strconv.ParseInt(string(unquoted(v)), 10, 64)
	return err
}

// time reads a time in microseconds.
func (r *reader) time(into *int64, given *bool) error {
	v, err := r.json.ReadValue()
	if err != nil {
		return err
	}
	n, ok := nanoseconds(v)
	if !ok {
		return said("event %d%s: %.40s cannot be a time in microseconds", r.events, r.now.called(), v)
	}
	*into, *given = n, true
	return nil
}

// called names an event in an error, if its name was read.
func (e *event) called() string {
	if len(e.name) == 0 {
		return ""
	}
	return ", " + strconv.Quote(string(e.name[:min(len(e.name), 60)]))
}

// nanoseconds returns a time that JSON has in microseconds. Digits are read as such: a float has too few of them for a
// clock that began in 1970.
func nanoseconds(v []byte) (int64, bool) {
	sign, digits := int64(1), v
	if len(v) > 0 && v[0] == '-' {
		sign, digits = -1, v[1:]
	}
	var n int64
	decimals, more := -1, false
	for _, c := range digits {
		switch {
		case c == '.' && decimals < 0:
			decimals = 0
		case c < '0' || c > '9': // an exponent, or no number
			return rounded(v)
		case decimals == 3: // the first of further digits rounds
			if c >= '5' && !more {
				n++
			}
			more = true
		default:
			if n > (math.MaxInt64-9)/10 {
				return 0, false
			}
			n = 10*n + int64(c-'0')
			if decimals >= 0 {
				decimals++
			}
		}
	}
	for i := max(decimals, 0); i < 3; i++ {
		if n > math.MaxInt64/10 {
			return 0, false
		}
		n *= 10
	}
	return sign * n, len(digits) > 0
}

// rounded does the same for numbers with an exponent.
func rounded(v []byte) (int64, bool) {
	x, err := strconv.ParseFloat(string(v), 64)
	if x = math.Round(1000 * x); err != nil || !(math.Abs(x) < 1<<62) {
		return 0, false
	}
	return int64(x), true
}
