package psim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"psim/configs"
	"psim/internal/nearest"
)

// A Mode is one of the ways to train on several workers that Brown's CS1390
// compares.
type Mode struct {
	Name   string
	config string // the example that it is by default
	data   bool   // workers are replicas, else stages
	sets   []string
}

// Modes lists the modes.
func Modes() []Mode {
	return []Mode{
		{"ddp", "vgg16-cpu-ddp", true, []string{"schedule.name=ddp", "parallel.zero=0"}},
		{"fsdp", "vgg16-cpu-fsdp", true, []string{"schedule.name=ddp", "parallel.zero=3"}},
		{"model", "vgg16-cpu-model", false, []string{"schedule.name=model-parallel"}},
		{"pipeline", "vgg16-cpu-pipeline", false, []string{"schedule.name=gpipe"}},
	}
}

// ModeNames lists the names of the modes.
func ModeNames() []string {
	var names []string
	for _, m := range Modes() {
		names = append(names, m.Name)
	}
	return names
}

var modeForm = regexp.MustCompile(`^([A-Za-z_-]+)=([0-9]+)$`)

// ModeWords splits a list at its commas. A number alone is of the mode before it:
// ddp=1,2 is ddp=1 and ddp=2.
func ModeWords(list string) []string {
	words := strings.Split(list, ",")
	mode := ""
	for i, word := range words {
		if parts := modeForm.FindStringSubmatch(word); parts != nil {
			mode = parts[1]
		} else if mode != "" && modeForm.MatchString(mode+"="+word) {
			words[i] = mode + "=" + word
		} else {
			mode = ""
		}
	}
	return words
}

// ParseMode reads MODE=WORKERS, such as ddp=2. It is not ok where the text has
// another form.
func ParseMode(text string) (m Mode, workers int, ok bool, err error) {
	name, count, _ := strings.Cut(text, "=")
	for _, m := range Modes() {
		if m.Name == name && name != text && !strings.ContainsAny(count, `/\`) {
			if workers, err = strconv.Atoi(count); err != nil || workers < 1 || workers > 1<<16 {
				err = fmt.Errorf("%s: the number of workers must be a whole number from 1 to %d, as in %s=2", text, 1<<16, name)
			}
			return m, workers, true, err
		}
	}
	if !modeForm.MatchString(text) {
		return m, 0, false, nil
	}
	return m, 0, true, fmt.Errorf("%s: unknown mode %q; use %s%s", text, name, strings.Join(ModeNames(), ", "), nearest.Suggest(name, ModeNames()))
}

// Load makes the configuration of a mode on so many workers: that of its example, or
// of another configuration, with changes KEY=VALUE over it. Every replica keeps the
// batch that it has there, as in the course.
func (m Mode) Load(workers int, config string, sets ...string) (*configs.Config, error) {
	own := config == ""
	if own {
		config = m.config
	}
	c, err := configs.Load(config, sets...)
	if err != nil {
		return nil, err
	}
	if !own && !m.data && m.Name == "pipeline" && c.Schedule.Name != "ddp" && c.Schedule.Name != "model-parallel" {
		m.sets = nil // a pipeline of its own
	}
	replicas, stages := 1, workers
	if m.data {
		replicas, stages = workers, 1
	}
	changed := append([]string{}, m.sets...)
	changed = append(changed, fmt.Sprintf("schedule.stages=%d", stages), fmt.Sprintf("parallel.data=%d", replicas))
	if batch := int(c.Batch.Global); batch > 0 {
		changed = append(changed, fmt.Sprintf("batch.global=%d", batch/max(1, c.Parallel.Data)*replicas))
	}
	return configs.Load(config, append(changed, sets...)...)
}
