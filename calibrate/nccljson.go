package calibrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// An ncclReport holds the parts of a JSON report that are read.
type ncclReport struct {
	Args   json.RawMessage `json:"args"` // a list that begins with the program's name, or anything else
	Config *struct {
		Threads int               `json:"nthreads"`
		GPUs    int               `json:"ngpus"`
		Devices []json.RawMessage `json:"devices"` // one for every process
	} `json:"config"`
	Verdict *struct {
		OK *bool `json:"okay"`
	} `json:"out_of_bounds"`
	Results []struct {
		Size       float64 `json:"size"`
		Operation  string  `json:"redop"`
		Root       any     `json:"root"` // a number, or text with spaces
		OutOfPlace *struct {
			Time   *float64 `json:"time"`
			AlgBW  float64  `json:"alg_bw"`
			BusBW  float64  `json:"bus_bw"`
			Launch *float64 `json:"cpu_time"`
			// The number of wrong results; null if they were not checked.
			Wrong  *float64 `json:"nwrong"`
			Errors *float64 `json:"wrong"`
		} `json:"out_of_place"`
	} `json:"results"`
	Kind string `json:"kind"` // of a result of psim run or exec; otherwise ""
	psimReport
}

func readNCCLJSON(label string, data []byte) ([]ncclRun, error) {
	var runs []ncclRun
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var r ncclReport
		start := decoder.InputOffset()
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return runs, nil
		}
		if err != nil {
			return nil, jsonError(label, data, start, err)
		}
		run, err := r.run(label)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		runs = append(runs, run)
	}
}

// run reads one report.
func (r ncclReport) run(label string) (ncclRun, error) {
	var run ncclRun
	if r.Collective != "" {
		return r.psimReport.run(label)
	}
	if r.Kind != "" {
		return run, fmt.Errorf("this is a %s result of psim run or exec, which has no times of separate collectives; "+
			"give the output of nccl-tests, or of psim exec ring-allreduce and the like", r.Kind)
	}
	if r.Config == nil {
		return run, errors.New("config is missing: " +
			"this is not a report of nccl-tests, nor of psim exec COLLECTIVE --json")
	}
	const most = 1 << 20
	if r.Config.Threads < 1 || r.Config.GPUs < 1 || r.Config.Threads > most || r.Config.GPUs > most {
		return run, fmt.Errorf("config: nthreads = %d, ngpus = %d: each must be at least 1",
			r.Config.Threads, r.Config.GPUs)
	}
	var err error
	if run.test, err = r.program(); err != nil {
		return run, err
	}
	if r.Verdict != nil && r.Verdict.OK != nil && !*r.Verdict.OK {
		return run, errors.New("out_of_bounds.okay is false: " + brokenCollective)
	}
	for _, device := range r.Config.Devices {
		var place struct {
			Host string `json:"hostname"`
		}
		if json.Unmarshal(device, &place) == nil && place.Host != "" {
			run.addHost(place.Host)
		}
	}
	run.ranks = r.Config.Threads * r.Config.GPUs * max(1, len(r.Config.Devices))
	run.rows, err = r.rows(label)
	return run, err
}

// rows reads the out-of-place measurements of a report.
func (r ncclReport) rows(label string) (rows []ncclRow, err error) {
	for i, result := range r.Results {
		o := result.OutOfPlace
		switch {
		case o == nil:
			continue // measured in place only
		case o.Launch != nil:
			return nil, fmt.Errorf("results[%d]: these are times of the CPU (-C), not of the collectives", i)
		case o.Time == nil:
			return nil, fmt.Errorf("results[%d].out_of_place: time is missing", i)
		}
		row := ncclRow{
			at: fmt.Sprintf("%s: results[%d]", label, i), redop: result.Operation,
			size: result.Size, us: *o.Time, algbw: o.AlgBW, busbw: o.BusBW,
		}
		if result.Root != nil {
			row.root = strings.TrimSpace(fmt.Sprint(result.Root))
		}
		for _, wrong := range []*float64{o.Wrong, o.Errors} {
			if wrong != nil {
				row.wrong += *wrong
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// program finds the test that made the report. It returns an error for a test that a link
// cannot price, and nil if the arguments name no test: a program may have been renamed.
func (r ncclReport) program() (*ncclTest, error) {
	var args []string
	if json.Unmarshal(r.Args, &args) != nil || len(args) == 0 || !strings.Contains(args[0], "_perf") {
		return nil, nil
	}
	return testNamed(args[0])
}

// describeKind describes a kind of value in terms of JSON.
func describeKind(k reflect.Kind) string {
	switch k {
	case reflect.Int:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// jsonError words a JSON error and names its line. The value with the error starts at a
// byte offset.
func jsonError(label string, data []byte, start int64, err error) error {
	at := start
	text := err.Error()
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at, text = syntax.Offset, fmt.Sprintf("invalid JSON: %v", err)
	case errors.As(err, &wrong):
		at += wrong.Offset
		text = fmt.Sprintf("%s: must be %s, not %s", wrong.Field, describeKind(wrong.Type.Kind()), wrong.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		at, text = int64(len(data)), "the file ends within the JSON; run again what wrote it"
	}
	at = min(max(0, at), int64(len(data)))
	return fmt.Errorf("%s:%d: %s", label, 1+bytes.Count(data[:at], []byte("\n")), text)
}
