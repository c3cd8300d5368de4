// Package modes knows the four ways of training on several workers that the courses
// compare, by the names that they give them: ddp, fsdp, model and pipeline.
package modes

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"psim/configs"
	"psim/internal/nearest"
)

// A Mode is a way of training on several workers.
type Mode struct {
	Name     string
	Config   string // the example that trains in this way
	Schedule string
	// Data says that workers are replicas; they are stages otherwise.
	Data bool
	// Sharded says that the replicas share parameters, gradients and optimizer states.
	Sharded bool
}

// All lists the modes.
func All() []Mode {
	return []Mode{
		{Name: "ddp", Config: "vgg16-cpu-ddp", Schedule: "ddp", Data: true},
		{Name: "fsdp", Config: "vgg16-cpu-fsdp", Schedule: "ddp", Data: true, Sharded: true},
		{Name: "model", Config: "vgg16-cpu-model", Schedule: "model-parallel"},
		{Name: "pipeline", Config: "vgg16-cpu-pipeline", Schedule: "gpipe"},
	}
}

// Names lists the names of the modes.
func Names() []string {
	var names []string
	for _, m := range All() {
		names = append(names, m.Name)
	}
	return names
}

// Find returns the mode with the given name.
func Find(name string) (m Mode, ok bool) {
	for _, m := range All() {
		if m.Name == name {
			return m, true
		}
	}
	return Mode{}, false
}

var form = regexp.MustCompile(`^([A-Za-z_-]+)=([0-9]+)$`)

// Words splits a list at its commas. A number alone belongs to the mode before it:
// ddp=1,2 is ddp=1 and ddp=2.
func Words(list string) []string {
	words := strings.Split(list, ",")
	name := ""
	for i, word := range words {
		if parts := form.FindStringSubmatch(word); parts != nil {
			name = parts[1]
		} else if name != "" && form.MatchString(name+"="+word) {
			words[i] = name + "=" + word
		} else {
			name = ""
		}
	}
	return words
}

const mostWorkers = 1 << 16

// Parse reads MODE=WORKERS, such as ddp=2. It is not ok if the text has another form.
func Parse(text string) (m Mode, workers int, ok bool, err error) {
	name, count, found := strings.Cut(text, "=")
	if m, ok = Find(name); ok && found && !strings.ContainsAny(count, `/\`) {
		if workers, err = strconv.Atoi(count); err != nil || workers < 1 || workers > mostWorkers {
			err = fmt.Errorf("%s: the number of workers must be a whole number from 1 to %d, as in %s=2",
				text, mostWorkers, name)
		}
		return m, workers, true, err
	}
	if !form.MatchString(text) {
		return Mode{}, 0, false, nil
	}
	return Mode{}, 0, true, fmt.Errorf("%s: unknown mode %q; use %s%s",
		text, name, strings.Join(Names(), ", "), nearest.Suggest(name, Names()))
}

// Load makes the configuration of the mode on a number of workers: that of its example,
// or config if it is not empty, with changes KEY=VALUE over it. Every replica keeps the
// batch that it has there.
func (m Mode) Load(workers int, config string, sets ...string) (*configs.Config, error) {
	own := config == ""
	if own {
		config = m.Config
	}
	c, err := configs.Load(config, sets...)
	if err != nil {
		return nil, err
	}
	replicas, stages := 1, workers
	if m.Data {
		replicas, stages = workers, 1
	}
	var changed []string
	if own || !m.keeps(c) {
		changed = m.sets()
	}
	changed = append(changed, fmt.Sprintf("schedule.stages=%d", stages), fmt.Sprintf("parallel.data=%d", replicas))
	if batch := int(c.Batch.Global); batch > 0 {
		changed = append(changed, fmt.Sprintf("batch.global=%d", batch/max(1, c.Parallel.Data)*replicas))
	}
	return configs.Load(config, append(changed, sets...)...)
}

// keeps reports whether a configuration is a pipeline already, which then keeps its
// schedule.
func (m Mode) keeps(c *configs.Config) bool {
	return m.Name == "pipeline" && c.Schedule.Name != "ddp" && c.Schedule.Name != "model-parallel"
}

// sets lists the settings that make a configuration one of the mode.
func (m Mode) sets() []string {
	list := []string{"schedule.name=" + m.Schedule}
	switch {
	case m.Sharded:
		list = append(list, "parallel.zero=3")
	case m.Data:
		list = append(list, "parallel.zero=0")
	}
	return list
}
