package rankings

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/csvfile"
	"psim/internal/files"
	"psim/internal/jsonfile"
	"psim/results"
)

// A Sweep holds the predictions for a configuration with some settings varied.
type Sweep struct {
	SweepInfo
	Points []SweepPoint // by index
}

// SweepInfo identifies a sweep. It is saved in sweep.json.
type SweepInfo struct {
	Schema int    `json:"schema"`
	Name   string `json:"name"` // of the configuration
	// Configuration is the fingerprint of the configuration without the varied settings, and
	// Version the version of psim.
	Configuration string      `json:"configuration"`
	Version       string      `json:"version,omitempty"`
	Vary          []Variation `json:"vary"`
	Count         int         `json:"points"` // of all shards
	// Shard names the part of the points that this is, such as 2/4; it is empty for all points.
	Shard string `json:"shard,omitempty"`
}

// A Variation is a setting and its values.
type Variation struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// A SweepPoint is one combination of a sweep, with its prediction, or the reason why the
// combination is impossible.
type SweepPoint struct {
	Index int      // among all points of the sweep
	Set   []string // its settings
	// Key is the fingerprint of the point's whole configuration.
	Key    string
	Result results.Result
	Error  string // why the combination is impossible

	text json.RawMessage // the result as a line of JSON
}

// A pointLine is a line of sweep.jsonl.
type pointLine struct {
	Index  int             `json:"index"`
	Set    []string        `json:"set"`
	Key    string          `json:"key"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// NewSweepPoint makes a point of a prediction.
func NewSweepPoint(index int, set []string, key string, r results.Result) (SweepPoint, error) {
	r.Build, r.Simulation = nil, nil
	text, err := CompactJSON(r.Writable())
	return SweepPoint{Index: index, Set: set, Key: key, Result: r, text: text}, err
}

// CompactJSON writes a value as one line of JSON.
func CompactJSON(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Line returns a point as one line of JSON.
func (p SweepPoint) Line() ([]byte, error) {
	return CompactJSON(pointLine{p.Index, p.Set, p.Key, p.text, p.Error})
}

// ParseSweepPoint reads a line that Line has written.
func ParseSweepPoint(line []byte) (SweepPoint, error) {
	var l pointLine
	if err := json.Unmarshal(line, &l); err != nil {
		return SweepPoint{}, fmt.Errorf("%w%s", err, csvfile.Damaged)
	}
	p := SweepPoint{Index: l.Index, Set: l.Set, Key: l.Key, Error: l.Error}
	switch {
	case l.Result == nil && l.Error == "":
		return p, errors.New("holds neither result nor error")
	case l.Result == nil:
		return p, nil
	case string(l.Result) == "null":
		p.Error = cmp.Or(l.Error, "has no result")
		return p, nil
	}
	var err error
	if p.Result, err = results.ReadResult(bytes.NewReader(l.Result)); err != nil {
		return p, fmt.Errorf("result: %w", err)
	}
	var text bytes.Buffer
	err = json.Compact(&text, l.Result)
	p.text = text.Bytes()
	return p, err
}

// Same reports whether two points have the same configuration and the same outcome.
func (p SweepPoint) Same(q SweepPoint) bool {
	return p.Key == q.Key && slices.Equal(p.Set, q.Set) && p.Error == q.Error && bytes.Equal(p.text, q.text)
}

// longestPoint bounds the bytes of a line of a sweep.jsonl, which holds a result.
const longestPoint = 1 << 28

// ReadPoints reads a sweep.jsonl.
func ReadPoints(r io.Reader) (points []SweepPoint, err error) {
	lines := bufio.NewReader(csvfile.LimitLines(r, longestPoint))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			p, problem := ParseSweepPoint(line)
			if problem != nil {
				return nil, fmt.Errorf("line %d: %w", n, problem)
			}
			points = append(points, p)
		}
		if errors.Is(err, io.EOF) {
			return points, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// ReadSweepInfo reads a sweep.json.
func ReadSweepInfo(r io.Reader) (SweepInfo, error) {
	var info SweepInfo
	if err := jsonfile.Read(r, 1<<24, &info); err != nil {
		return info, err
	}
	if info.Configuration == "" || info.Vary == nil {
		return info, errors.New("is not a sweep.json: configuration or vary is missing")
	}
	return info, nil
}

// changesDevices reports whether the setting changes the number of devices.
func (v Variation) changesDevices() bool {
	switch v.Key {
	case "schedule.stages", "parallel.data", "parallel.tensor", "parallel.context", "collective.ranks":
		return true
	}
	return false
}

// Values returns the values of the varied settings at a point.
func (s Sweep) Values(p SweepPoint) []string {
	list := make([]string, len(s.Vary))
	for i, v := range s.Vary {
		for _, set := range p.Set {
			if value, ok := strings.CutPrefix(set, v.Key+"="); ok {
				list[i] = value
			}
		}
	}
	return list
}

// others joins the values of a point for settings that do not change the number of devices.
func (s Sweep) others(p SweepPoint) string {
	var list []string
	for i, value := range s.Values(p) {
		if !s.Vary[i].changesDevices() {
			list = append(list, strconv.Quote(value))
		}
	}
	return strings.Join(list, ",")
}

// Efficiencies returns the throughput per device of every point, as a fraction of that of the
// point with the fewest devices whose other values are the same. It is nil if all these points
// have the same number of devices, or if the point has no throughput.
func (s Sweep) Efficiencies() []*float64 {
	groups := map[string][]int{}
	for i, p := range s.Points {
		if p.Error == "" && p.Result.Throughput.Samples > 0 && p.Result.Devices > 0 {
			group := s.others(p)
			groups[group] = append(groups[group], i)
		}
	}
	list := make([]*float64, len(s.Points))
	for _, group := range groups {
		fewer := func(a, b int) int { return s.Points[a].Result.Devices - s.Points[b].Result.Devices }
		least, most := slices.MinFunc(group, fewer), slices.MaxFunc(group, fewer)
		if fewer(least, most) == 0 {
			continue
		}
		for _, i := range group {
			e := s.Points[i].Result.SamplesPerDevice() / s.Points[least].Result.SamplesPerDevice()
			list[i] = &e
		}
	}
	return list
}

// WriteLines writes a line per point.
func (s Sweep) WriteLines(w io.Writer) error {
	for _, p := range s.Points {
		line, err := p.Line()
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes a sweep.json.
func (i SweepInfo) WriteJSON(w io.Writer) error { return files.WriteJSON(w, i) }

// WriteJSON writes the sweep as an indented JSON object with the content of sweep.json and
// sweep.jsonl, and the efficiencies.
func (s Sweep) WriteJSON(w io.Writer) error {
	type point struct {
		pointLine
		Efficiency *float64 `json:"efficiency,omitempty"`
	}
	points := make([]point, len(s.Points))
	for i, e := range s.Efficiencies() {
		p := s.Points[i]
		points[i] = point{pointLine{p.Index, p.Set, p.Key, p.text, p.Error}, e}
	}
	return files.WriteJSON(w, struct {
		SweepInfo
		Points []point `json:"results"`
	}{s.SweepInfo, points})
}
