package published

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"psim/configs"
	"psim/internal/formula"
)

// A configuration is the configuration of a row as text: an example with changed settings, or a whole
// file.
type configuration struct {
	base string   // name of the example, or ""
	sets []string // KEY = VALUE in TOML
	text string   // sections after them, if there is no base
	over []string
}

// key returns a setting of the row's configuration. The configuration itself must not use it.
func (r row) key(name string) (any, error) {
	if r.settling {
		return nil, fmt.Errorf("no column %s", name)
	}
	values, err := r.settings()
	if err != nil {
		return nil, err
	}
	value, ok := values[name]
	if !ok {
		return "", fmt.Errorf("no column and no setting %s", name)
	}
	if text, err := strconv.Unquote(value); err == nil {
		return text, nil
	}
	return value, nil
}

// settings returns the row's settings by key, in TOML: the sections of the table or of a prediction,
// cells of columns with a dot in their names, and the settings of series, predictions and alternatives.
func (r row) settings() (map[string]string, error) {
	values := map[string]string{}
	sections, cells := r.table.Config, true
	for _, c := range r.changes {
		if c.Config != nil {
			sections, cells = c.Config, false
		}
	}
	r.settling = true
	if err := r.flatten(values, "", sections); err != nil {
		return nil, err
	}
	if cells {
		for _, list := range []map[string]string{r.cells, r.looked} {
			for column, cell := range list {
				if strings.Contains(column, ".") && cell != "" {
					values[column] = tomlOf(cell)
				}
			}
		}
	}
	all := []settings{r.table.Set, r.form.Set}
	for _, c := range r.changes {
		all = append(all, c.Set)
	}
	for _, set := range all {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			if err := r.put(values, key, set[key]); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// flatten adds sections as settings with dotted keys.
func (r row) flatten(values map[string]string, prefix string, sections settings) error {
	for key, value := range sections {
		var err error
		if section, ok := value.(map[string]any); ok {
			err = r.flatten(values, prefix+key+".", section)
		} else {
			err = r.put(values, prefix+key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put sets a key, or removes it if its text is empty.
func (r row) put(values map[string]string, key string, value any) error {
	text, ok := value.(string)
	if !ok {
		values[key] = literal(value)
		return nil
	}
	filled, err := formula.Fill(text, r)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if values[key] = tomlOf(filled); filled == "" {
		delete(values, key)
	}
	return nil
}

// tomlOf writes a cell as TOML: a list, a number or a text.
func tomlOf(cell string) string {
	if strings.HasPrefix(cell, "[") {
		return strings.ReplaceAll(cell, " ", ", ")
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil || cell == "true" || cell == "false" {
		return cell
	}
	return strconv.Quote(cell)
}

// literal writes a value as TOML.
func literal(value any) string {
	var parts []string
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		for _, one := range v {
			parts = append(parts, literal(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []map[string]any:
		for _, one := range v {
			parts = append(parts, literal(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+" = "+literal(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(value)
}

// configuration returns the row's configuration.
func (r row) configuration() (configuration, error) {
	values, err := r.settings()
	if err != nil {
		return configuration{}, err
	}
	c := configuration{text: r.machine, over: r.over}
	if c.text == "" && r.table.Machine != "" {
		c.text = read("testdata/" + r.table.Machine)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		c.sets = append(c.sets, key+" = "+values[key])
	}
	c.base, err = formula.Fill(r.table.Base, r)
	return c, err
}

// id identifies a configuration.
func (c configuration) id() string {
	return strings.Join(slices.Concat([]string{c.base}, c.sets, []string{c.text}, c.over), "\n")
}

// load parses the configuration.
func (c configuration) load() (*configs.Config, error) {
	if c.base != "" {
		return configs.Load(c.base, slices.Concat(c.sets, c.over)...)
	}
	return configs.Parse("table", []byte(strings.Join(c.sets, "\n")+"\n"+c.text), c.over...)
}
