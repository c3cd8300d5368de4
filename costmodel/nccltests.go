package costmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ReadNCCLTests reads what nccl-tests' all_reduce_perf has printed, or the JSON
// that its -J writes: one run or several, one after the other. Times are those
// out of place. Errors begin with the label and the line.
func ReadNCCLTests(label string, data []byte) ([]AllReduceTiming, error) {
	var list []AllReduceTiming
	var err error
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		list, err = readNCCLJSON(label, data)
	} else {
		list, err = readNCCLText(label, data)
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s: holds no times; the output of nccl-tests' all_reduce_perf is wanted, as text or as its -J writes it", label)
	}
	return list, err
}

// ncclText is the state of reading text: how many ranks the run has, and which
// columns its rows have.
type ncclText struct {
	ranks   int
	rows    bool // of this run were seen
	columns []string
	list    []AllReduceTiming
}

var (
	// mpirunTag is what mpirun puts before lines that it tags.
	mpirunTag = regexp.MustCompile(`^\[\d+,\d+\]<std\w+>:\s?`)
	ncclRank  = regexp.MustCompile(`^#\s+Rank\s+\d+\s`)
	ncclRow   = regexp.MustCompile(`^\s*\d+\s+\d+\s`)
)

// readNCCLText reads lines; those that are neither a rank, a heading nor a row
// say nothing about times.
func readNCCLText(label string, data []byte) ([]AllReduceTiming, error) {
	var t ncclText
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if err := t.read(mpirunTag.ReplaceAllString(line, "")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", label, number, err)
		}
	}
	return t.list, nil
}

func (t *ncclText) read(line string) error {
	words := strings.Fields(strings.TrimLeft(line, "# "))
	switch {
	case ncclRank.MatchString(line):
		if t.rows { // another run
			t.ranks, t.rows, t.columns = 0, false, nil
		}
		t.ranks++
	case strings.HasPrefix(line, "#") && slices.Contains(words, "size") && slices.Contains(words, "busbw"):
		t.columns = words
		if slices.Contains(words, "cputime") {
			return errors.New("these are times of the CPU (-C), not of the all-reduces")
		}
	case ncclRow.MatchString(line):
		t.rows = true
		return t.row(words)
	}
	return nil
}

// row reads a row by the columns of the heading.
func (t *ncclText) row(words []string) error {
	if t.columns == nil {
		return errors.New(`a row before the heading "# size count type redop … time algbw busbw"`)
	}
	if t.ranks == 0 {
		return errors.New(`a row before the lines "# Rank 0 … on HOST device …", which tell the number of ranks`)
	}
	cell := func(column string) (float64, error) {
		i := slices.Index(t.columns, column)
		if i < 0 || i >= len(words) {
			return 0, fmt.Errorf("the row has no %s", column)
		}
		x, err := strconv.ParseFloat(words[i], 64)
		if err != nil {
			return 0, fmt.Errorf("%s = %q: a number is wanted", column, words[i])
		}
		return x, nil
	}
	var values [4]float64
	for i, column := range []string{"size", "time", "algbw", "busbw"} {
		var err error
		if values[i], err = cell(column); err != nil {
			return err
		}
	}
	timing, err := ncclTiming(t.ranks, values[0], values[1], values[2], values[3])
	if err == nil && timing.Bytes > 0 {
		t.list = append(t.list, timing)
	}
	return err
}

// ncclTiming checks the numbers of a row. nccl-tests print sizes that are too
// small for the ranks as 0 bytes.
func ncclTiming(ranks int, size, us, algbw, busbw float64) (AllReduceTiming, error) {
	const digits = 0.02 // bandwidths below 1 GB/s have fewer than three
	took := seconds(us / 1e6)
	factor := 2 * float64(ranks-1) / float64(ranks)
	switch {
	case ranks < 2:
		return AllReduceTiming{}, errors.New("one rank has nothing to reduce with; 2 or more are wanted")
	case ranks > math.MaxInt32:
		return AllReduceTiming{}, fmt.Errorf("%d ranks are more than a configuration can have", ranks)
	case !(size >= 0) || size > math.MaxInt64/2 || size != math.Trunc(size):
		return AllReduceTiming{}, fmt.Errorf("size = %v: a number of bytes is wanted", size)
	case !(us > 0) || took <= 0 || took >= maxTime:
		return AllReduceTiming{}, fmt.Errorf("time = %v: a number of microseconds above 0 is wanted", us)
	case algbw >= 1 && !(math.Abs(size/(us*1e3)/algbw-1) < digits):
		return AllReduceTiming{}, fmt.Errorf("size = %v in time = %v microseconds are %.3g GB/s, where algbw is %.3g; is the time in another unit?", size, us, size/(us*1e3), algbw)
	case algbw >= 1 && !(math.Abs(busbw/algbw/factor-1) < digits):
		return AllReduceTiming{}, fmt.Errorf("busbw is %.3g times algbw, where an all-reduce over %d ranks has %.3g; is it another collective, or are ranks missing?", busbw/algbw, ranks, factor)
	}
	return AllReduceTiming{ranks, int64(size), took}, nil
}

// ncclReport is what of a JSON report is read.
type ncclReport struct {
	Config *struct {
		Threads int               `json:"nthreads"`
		GPUs    int               `json:"ngpus"`
		Devices []json.RawMessage `json:"devices"` // one for every process
	} `json:"config"`
	Results []struct {
		Size       float64 `json:"size"`
		OutOfPlace *struct {
			Time   *float64 `json:"time"`
			AlgBW  float64  `json:"alg_bw"`
			BusBW  float64  `json:"bus_bw"`
			Launch *float64 `json:"cpu_time"`
		} `json:"out_of_place"`
	} `json:"results"`
}

func readNCCLJSON(label string, data []byte) ([]AllReduceTiming, error) {
	var list []AllReduceTiming
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var r ncclReport
		start := decoder.InputOffset()
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, jsonError(label, data, start, err)
		}
		timings, err := r.timings()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		list = append(list, timings...)
	}
}

// timings are those of one report.
func (r ncclReport) timings() ([]AllReduceTiming, error) {
	if r.Config == nil {
		return nil, errors.New("config is missing, which tells the number of ranks")
	}
	const most = 1 << 20
	if r.Config.Threads < 1 || r.Config.GPUs < 1 || r.Config.Threads > most || r.Config.GPUs > most {
		return nil, fmt.Errorf("config: nthreads = %d, ngpus = %d: at least 1 each is wanted", r.Config.Threads, r.Config.GPUs)
	}
	ranks := r.Config.Threads * r.Config.GPUs * max(1, len(r.Config.Devices))
	var list []AllReduceTiming
	for i, row := range r.Results {
		switch o := row.OutOfPlace; {
		case o == nil:
			continue // in place alone
		case o.Launch != nil:
			return nil, fmt.Errorf("results[%d]: these are times of the CPU (-C), not of the all-reduces", i)
		case o.Time == nil:
			return nil, fmt.Errorf("results[%d].out_of_place: time is missing", i)
		}
		timing, err := ncclTiming(ranks, row.Size, *row.OutOfPlace.Time, row.OutOfPlace.AlgBW, row.OutOfPlace.BusBW)
		if err != nil {
			return nil, fmt.Errorf("results[%d]: %w", i, err)
		}
		if timing.Bytes > 0 {
			list = append(list, timing)
		}
	}
	return list, nil
}

// jsonError names the line of a mistake in the value that starts at a byte.
func jsonError(label string, data []byte, start int64, err error) error {
	at := start
	text := err.Error()
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &wrong):
		at += wrong.Offset
		text = fmt.Sprintf("%s: is a %s; another type is wanted", wrong.Field, wrong.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		at, text = int64(len(data)), "the file ends within the JSON"
	}
	at = min(max(0, at), int64(len(data)))
	return fmt.Errorf("%s:%d: %s", label, 1+bytes.Count(data[:at], []byte("\n")), text)
}
