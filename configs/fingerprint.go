package configs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"psim/schedules/order"
)

// Fingerprint identifies the experiment. It depends on its name, on the keys that are given, in
// any order, and on the content of the files that it names.
func (c *Config) Fingerprint() string {
	given, machine := map[string]any{}, c.machineSource()
	for i, s := range c.sources {
		top := s.top
		if i < machine { // replaced by the machine file that a later source names
			top = maps.Clone(top)
			delete(top, "machine")
		}
		merge(given, top)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %v %#v", c.name, c.exact, given) // maps are printed in order
	for _, path := range []string{c.Model.File, c.Schedule.File, c.Data.Lengths.File} {
		if path != "" {
			data, err := c.readBeside(path, max(order.MaxFile, maxLengths))
			fmt.Fprintf(sum, "\n%q %v", data, err)
		}
	}
	if c.Machine.Site != "" {
		data, err := c.readNamed(c.Machine.Site, c.sitePath(), maxSize)
		fmt.Fprintf(sum, "\n%q %v", data, err)
	}
	if c.Machine.File != "" {
		data, _, err := c.machineText()
		fmt.Fprintf(sum, "\n%q %v", data, err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}

// machineSource returns the last source that names a machine file, or 0.
func (c *Config) machineSource() int {
	named := len(c.sources) - 1
	for named > 0 && !c.sources[named].defines("machine.file") {
		named--
	}
	return max(0, named)
}

// merge puts the keys of one table over those of another.
func merge(into, over map[string]any) {
	for key, value := range over {
		table, isTable := value.(map[string]any)
		if !isTable {
			into[key] = value
			continue
		}
		below := map[string]any{}
		if before, ok := into[key].(map[string]any); ok {
			below = before
		}
		into[key] = below
		merge(below, table)
	}
}

// A Kept is an experiment in a form that can be written and read where its files are not: its texts, and
// those of the files that it names.
type Kept struct {
	Name    string            `json:"name"`
	Exact   time.Duration     `json:"exact,omitempty"`
	Devices int               `json:"devices,omitempty"` // of the target
	Texts   []KeptText        `json:"texts"`
	Files   map[string]string `json:"files,omitempty"` // by their names in the texts
}

// A KeptText is a text of a kept experiment: a file, or a setting.
type KeptText struct {
	Label   string `json:"label"`
	Text    string `json:"text"`
	Lines   bool   `json:"lines,omitempty"`
	Derived bool   `json:"derived,omitempty"`
	Assumed bool   `json:"assumed,omitempty"`
}

// Keep returns the experiment as it can be kept, with the files that it names with one of some lists of
// settings.
func (c *Config) Keep(with ...[]string) (Kept, error) {
	k := Kept{Name: c.name, Exact: c.exact, Devices: c.devices, Files: map[string]string{}}
	for _, s := range c.asked() {
		k.Texts = append(k.Texts, KeptText{s.label, s.text, s.lines, s.derived, s.assumed})
	}
	for _, sets := range append(with, nil) {
		one, err := c.With(sets...)
		if err != nil {
			return k, err
		}
		if path := one.Model.File; path != "" {
			data, err := one.readBeside(path, maxNetwork)
			if err != nil {
				return k, err
			}
			k.Files[path] = string(data)
		}
		if path := one.Data.Lengths.File; path != "" {
			data, err := one.readBeside(path, maxLengths)
			if err != nil {
				return k, err
			}
			k.Files[path] = string(data)
		}
		if path := one.Machine.Site; path != "" {
			data, err := one.readNamed(path, one.sitePath(), maxSize)
			if err != nil {
				return k, err
			}
			k.Files[path] = string(data)
		}
		if path := one.Machine.File; path != "" {
			if data, known, err := one.machineText(); err != nil {
				return k, err
			} else if !known {
				k.Files[path] = string(data)
			}
		}
	}
	return k, nil
}

// Config returns the experiment. It reads no files.
func (k Kept) Config() (*Config, error) {
	c := defaults()
	c.name, c.exact, c.devices, c.files = k.Name, k.Exact, k.Devices, map[string]string{}
	for path, text := range k.Files {
		c.files[path] = text
	}
	for _, t := range k.Texts {
		if err := c.add(t.Label, t.Text, t.Lines); err != nil {
			return nil, err
		}
		s := c.sources[len(c.sources)-1]
		s.derived, s.assumed = t.Derived, t.Assumed
	}
	return c.With()
}

// readNamed reads a file that the configuration names: that of a path, or what was kept of it.
func (c *Config) readNamed(name, path string, most int) ([]byte, error) {
	if c.files == nil {
		return readRegular(path, most)
	}
	text, kept := c.files[name]
	if !kept {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

// CheckSet returns an error for a setting KEY=VALUE that is wrong in every experiment: the key is
// unknown, the value has another type or is out of range, or a name is not in the catalog.
func CheckSet(set string) error {
	c := defaults()
	if err := c.set(set); err != nil {
		return err
	}
	if err := inRange(c.sources); err != nil {
		return err
	}
	if c.Defined("schedule.name") && !slices.Contains(scheduleNames(), c.Schedule.Name) {
		return c.problem("schedule", c.unknownSchedule())
	}
	if c.Defined("machine.device") {
		if _, err := c.machine(true); err != nil {
			return c.problem("machine", err)
		}
	}
	return nil
}

// valueToken matches a quoted string, or else one character.
var valueToken = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|'[^']*'|.`)

// SplitValues cuts a list of values of a setting at its commas, but not within
// brackets, braces and quotes.
func SplitValues(list string) ([]string, error) {
	var values []string
	depth, start := 0, 0
	for _, at := range valueToken.FindAllStringIndex(list, -1) {
		switch token := list[at[0]:at[1]]; token {
		case "[", "{":
			depth++
		case "]", "}":
			depth--
		case `"`, `'`:
			return nil, fmt.Errorf("the quote %s at character %d is not closed", token, at[0]+1)
		case ",":
			if depth == 0 {
				values, start = append(values, strings.TrimSpace(list[start:at[0]])), at[1]
			}
		}
	}
	if depth != 0 {
		return nil, errors.New("brackets do not match")
	}
	values = append(values, strings.TrimSpace(list[start:]))
	for i, v := range values {
		if v == "" {
			return nil, fmt.Errorf("value %d is empty", i+1)
		}
		if slices.Contains(values[:i], v) {
			return nil, fmt.Errorf("%s appears twice", v)
		}
	}
	return values, nil
}
