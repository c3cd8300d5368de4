package configs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

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
	for _, path := range []string{c.Model.File, c.Schedule.File} {
		if path != "" {
			data, err := c.readBeside(path, order.MaxFile)
			fmt.Fprintf(sum, "\n%q %v", data, err)
		}
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
