package logged

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"psim/internal/units"
	"psim/launch/understood"
)

// Lines of transformers' Trainer: its bar of progress, which tqdm draws, what it says before it trains, its summary,
// and where it saves.
var (
	bar = regexp.MustCompile(`(\d+)/(\d+) \[(?:(\d+):)?(\d+):(\d\d)<[^,\]\[]*,\s*([\d.]+)(s/it|it/s)`)
	// Transformers 5 writes numbers of dictionaries as strings.
	entry     = regexp.MustCompile(`['"](train_runtime|train_samples_per_second|epoch)['"]:\s*['"]?([\d.]+)`)
	metric    = regexp.MustCompile(`\b(train_runtime|train_samples_per_second|epoch)\s+=\s+([\d.:]+)`)
	announced = regexp.MustCompile(`(Num examples|Instantaneous batch size per device|Total train batch size[^=]*|` +
		`Number of trainable parameters|Gradient Accumulation steps|Total optimization steps) += +([\d,]+)`)
	saved = regexp.MustCompile(`Saving model checkpoint to .*checkpoint-(\d+)`)
)

// trainerStart is what the Trainer prints before it trains.
const trainerStart = "***** Running training *****"

// A trainerLog is what a log of the Trainer says.
type trainerLog struct {
	numbers map[string]float64 // by name
	bars    []progress         // of training
	saves   []report
	state   bool // it is a trainer_state.json
}

// A progress is where a bar was, and how many seconds a step took then.
type progress struct {
	step, total int
	after       time.Duration // since the bar began
	each        float64
}

// readTrainer reads a log of transformers' Trainer, or its trainer_state.json.
func readTrainer(data []byte) *Log {
	t := &trainerLog{numbers: map[string]float64{}}
	if t.readState(data); !t.state {
		t.readLines(from(data, trainerStart))
	}
	batch := int(t.numbers["Total train batch size"])
	l := &Log{
		Micro:  int(t.numbers["Instantaneous batch size per device"]),
		Rounds: int(t.numbers["Gradient Accumulation steps"]),
		Config: trainerArguments(data),
	}
	if group := l.Micro * l.Rounds; group > 0 && batch%group == 0 {
		l.Devices = batch / group
	}
	s := &understood.LoggedSteps{
		Program: "trainer", Batch: batch, Parameters: int64(t.numbers["Number of trainable parameters"]),
	}
	steps := t.numbers["Total optimization steps"]
	if steps == 0 && len(t.bars) > 0 {
		steps = float64(t.bars[0].total)
	}
	runtime := t.numbers["train_runtime"]
	if per := t.numbers["train_samples_per_second"]; per > 0 && runtime > 0 && steps > 0 {
		s.Rate = &understood.PrintedRate{
			Unit: understood.SamplesPerSecond, Counts: "train_samples_per_second", Value: per, Over: runtime / steps,
			Partial: max(1, t.numbers["epoch"]) / steps,
		}
	}
	switch {
	case t.byBar(s), t.bySaves(s):
	case runtime > 0 && steps > 0:
		s.StepTime = runtime / steps
		s.How = fmt.Sprintf("train_runtime by %.0f steps", steps)
		s.Note("the summary alone says how long a step is: its first steps, evaluation and saving are in it; a log " +
			"with the bar of progress (disable_tqdm=False) has steps alone")
	default:
		return nil
	}
	l.Steps = s
	return l
}

// readState reads a trainer_state.json.
func (t *trainerLog) readState(data []byte) {
	if len(data) > mostState || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) ||
		!bytes.Contains(data, []byte(`"log_history"`)) {
		return
	}
	var state struct {
		Step    float64          `json:"global_step"`
		History []map[string]any `json:"log_history"`
	}
	if json.Unmarshal(data, &state) != nil {
		return
	}
	t.state = true
	t.numbers["Total optimization steps"] = state.Step
	for _, row := range state.History {
		for key, value := range row {
			if x := number(fmt.Sprint(value)); x > 0 && (key == "epoch" || strings.HasPrefix(key, "train_")) {
				t.numbers[key] = x
			}
		}
	}
}

// mostState limits a trainer_state.json.
const mostState = 64 << 20

// readLines reads the lines of a log.
func (t *trainerLog) readLines(data []byte) {
	const least = 16 << 10 // bytes, in which the Trainer says what it will do
	for line := range linesWith(data[:min(len(data), least)], " = ") {
		if m := announced.FindStringSubmatch(line); m != nil {
			name, _, _ := strings.Cut(m[1], " (")
			t.numbers[strings.TrimSpace(name)] = number(m[2])
		}
	}
	for _, word := range []string{"train_runtime", "train_samples_per_second"} {
		for line := range linesWith(data, word) {
			for _, m := range entry.FindAllStringSubmatch(line, -1) {
				t.numbers[m[1]] = number(m[2])
			}
			if m := metric.FindStringSubmatch(line); m != nil && t.numbers[m[1]] == 0 {
				t.numbers[m[1]] = clock(m[2])
			}
		}
	}
	for line := range linesWith(data, "Saving model checkpoint to ") {
		if m := saved.FindStringSubmatch(line); m != nil {
			t.saves = append(t.saves, report{step: whole(m[1]), at: stamped(line)})
		}
	}
	t.readBars(data)
}

// clock reads a number of seconds, or hours, minutes and seconds.
func clock(text string) (seconds float64) {
	for part := range strings.SplitSeq(text, ":") {
		seconds = 60*seconds + number(part)
	}
	return seconds
}

// readBars reads where the bar of training was. Evaluation has a bar of its own, with other steps.
func (t *trainerLog) readBars(data []byte) {
	byTotal := map[int][]progress{}
	longest := time.Duration(-1)
	best := int(t.numbers["Total optimization steps"])
	for _, unit := range []string{"it/s", "s/it"} {
		for line := range linesWith(data, unit) {
			p, ok := progressOf(line)
			if !ok {
				continue
			}
			byTotal[p.total] = append(byTotal[p.total], p)
			if t.numbers["Total optimization steps"] == 0 && p.after > longest {
				best, longest = p.total, p.after
			}
		}
	}
	t.bars = byTotal[best]
	slices.SortStableFunc(t.bars, func(a, b progress) int { return cmp.Compare(a.step, b.step) })
	// A bar is drawn again after other lines, and at its end with the mean of all steps.
	t.bars = slices.CompactFunc(t.bars, func(a, b progress) bool { return a.step == b.step })
}

// progressOf reads a bar.
func progressOf(line string) (p progress, ok bool) {
	m := bar.FindStringSubmatch(line)
	if m == nil {
		return p, false
	}
	const most = 1e6 // of hours and of minutes
	p = progress{step: whole(m[1]), total: whole(m[2])}
	p.after = time.Duration(min(whole(m[3]), most))*time.Hour + time.Duration(min(whole(m[4]), most))*time.Minute +
		time.Duration(whole(m[5]))*time.Second
	rate := number(m[6])
	if p.each = rate; m[7] == "it/s" && rate > 0 {
		p.each = 1 / rate
	}
	return p, rate > 0
}

// byBar takes the step from the bar of progress.
func (t *trainerLog) byBar(s *understood.LoggedSteps) bool {
	var counted []progress
	for _, p := range t.bars {
		if p.step*10 > p.total { // the first tenth has the start in it
			counted = append(counted, p)
		}
	}
	if len(counted) == 0 {
		return false
	}
	var list []float64
	for _, p := range counted {
		list = append(list, p.each)
	}
	s.StepTime, s.Lines, s.Left = median(list), len(counted), len(t.bars)-len(counted)
	s.How = "the median of " + units.Plural(len(counted), "place") + " of the bar of progress"
	first, last := counted[0], counted[len(counted)-1]
	n := float64(last.step - first.step)
	if lost := (last.after - first.after).Seconds() - n*s.StepTime; lost > max(2, 0.02*n*s.StepTime) {
		s.Lost = lost // the bar has whole seconds
	}
	return true
}

// bySaves takes the step from the times at which the Trainer saved.
func (t *trainerLog) bySaves(s *understood.LoggedSteps) bool {
	list := each(t.saves)
	if len(list) == 0 {
		return false
	}
	s.StepTime, s.Lines = median(list), len(list)
	s.How = "the median of " + units.Plural(len(list), "interval") + " between checkpoints"
	s.Note("saving, and evaluation if there was one, is in that time")
	return true
}

// enumerated matches a member of an enumeration as Python shows it.
var enumerated = regexp.MustCompile(`<\w+\.\w+: '([^']*)'>`)

// argument is a line of TrainingArguments as Python shows them.
var argument = regexp.MustCompile(`^([a-zA-Z]\w*)=(.*),$`)

// trainerArguments returns the arguments that a script prints of its Trainer (TrainingArguments( …), or trl's
// SFTConfig( …)), as JSON; nil if it prints none.
func trainerArguments(data []byte) []byte {
	at := -1
	for _, mark := range []string{"TrainingArguments(\n", "SFTConfig(\n"} {
		if n := bytes.LastIndex(data, []byte(mark)); n > at {
			at = n + len(mark)
		}
	}
	if at < 0 {
		return nil
	}
	keys := map[string]any{}
	for line := range bytes.SplitSeq(data[at:min(len(data), at+understood.MostScript)], []byte("\n")) {
		text := strings.TrimRight(string(line), "\r")
		if text == ")" {
			break
		}
		if m := argument.FindStringSubmatch(text); m != nil {
			keys[m[1]] = shownByPython(m[2])
		}
	}
	if len(keys) == 0 {
		return nil
	}
	out, err := json.Marshal(keys)
	if err != nil {
		return nil
	}
	return out
}

// shownByPython returns the value that Python shows.
func shownByPython(text string) any {
	text = enumerated.ReplaceAllString(text, "'$1'")
	var value map[string]any
	if wrapped := inJSON([]byte(`{"x": ` + text + "}")); wrapped != nil && json.Unmarshal(wrapped, &value) == nil {
		return value["x"]
	}
	if kind, member, ok := strings.Cut(text, "."); ok && strings.ToUpper(member) == member && kind != "" &&
		kind[0] >= 'A' && kind[0] <= 'Z' && member != "" {
		return strings.ToLower(member) // of an enumeration
	}
	return text
}
