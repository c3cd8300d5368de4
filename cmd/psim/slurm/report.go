package slurm

import (
	"fmt"
	"io"
	"strings"

	"psim/internal/files"
	"psim/internal/units"
	"psim/reports/table"
)

// written is a Outlook as psim status --json prints it.
type written struct {
	Shards   int     `json:"shards"`
	Done     int     `json:"done"`
	Running  int     `json:"running"`
	Waiting  int     `json:"waiting"`
	Failed   int     `json:"failed"`
	Missing  int     `json:"missing"`
	Merging  string  `json:"merging,omitempty"` // running or waiting
	Answered bool    `json:"answered"`
	Best     float64 `json:"best_s,omitempty"`
	Seconds  float64 `json:"seconds"` // since the submission, until the answer
	Left     float64 `json:"left_s,omitempty"`
	CPU      float64 `json:"cpu_s"` // of the shards that ended
}

// WriteJSON prints the standing as one JSON object.
func (s *Outlook) WriteJSON(w io.Writer) error {
	return files.WriteJSON(w, written{
		Shards: len(s.Fates), Done: s.Count(Done), Running: s.Count(Running), Waiting: s.Count(Waiting),
		Failed: s.Count(Failed), Missing: s.Count(Missing), Merging: s.Merging, Answered: s.Answered,
		Best: s.Best.Seconds(), Seconds: s.Seconds, Left: max(0, s.Left), CPU: s.cpu(),
	})
}

// cpu adds up the processor time of the shards that ended.
func (s *Outlook) cpu() (seconds float64) {
	for _, f := range s.Fates {
		seconds += f.CPU
	}
	return seconds
}

// WriteText prints a line for every shard, and how far all are.
func (s *Outlook) WriteText(w io.Writer) error {
	p := table.NewPage(w)
	seconds := func(x float64) string {
		if x == 0 {
			return ""
		}
		return units.FormatSeconds(x)
	}
	table.Table[Fate]{
		Columns: []table.Column[Fate]{
			{Head: "shard", Cell: func(f Fate) any { return f.Number }},
			{Head: "state", Cell: func(f Fate) any { return f.State }, Left: true},
			{Head: "time", Cell: func(f Fate) any { return seconds(f.Seconds) }},
			{Head: "CPU time", Cell: func(f Fate) any { return seconds(f.CPU) }},
			{Head: "node", Cell: func(f Fate) any { return f.Node }, Left: true},
			{Head: "", Cell: func(f Fate) any { return f.Why }, Left: true},
		},
		Rows: s.Fates,
	}.Text(p)
	p.Print("\n%s\n", s.sum())
	return p.Flush()
}

// sum says how far all shards are.
func (s *Outlook) sum() string {
	var counts []string
	for _, state := range []string{Done, Running, Waiting, Failed, Missing} {
		if n := s.Count(state); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
	}
	text := fmt.Sprintf("%s: %s", units.Plural(len(s.Fates), "shard"), strings.Join(counts, ", "))
	if s.Best > 0 {
		text += "; the best step so far is " + units.FormatDuration(s.Best)
	}
	switch {
	case s.Answered:
		text += "; the answer is in answer.txt"
	case s.Merging == Running:
		text += "; they are being merged"
	case s.Left >= 0:
		text += fmt.Sprintf("; about %s left", units.FormatSeconds(s.Left))
	case s.Stuck():
		text += "; --resubmit submits what is missing"
	}
	return text
}

// Stuck reports whether nothing will happen any more, and there is no answer.
func (s *Outlook) Stuck() bool {
	return !s.Answered && s.Merging == "" && s.Count(Running) == 0 && s.Count(Waiting) == 0
}
