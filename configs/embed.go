package configs

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/costmodel"
	"psim/costmodel/hfconfig"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/internal/nearest"
	"psim/internal/setting"
)

//go:embed *.toml plans/*.toml
var files embed.FS

// Reference returns every setting with its meaning, range and default, as a commented
// configuration.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Every setting of a psim configuration. A file holds [schedule] and exactly one
# of [times], [model] and [collective]. A line that is commented out shows the
# default, or an example where the text names another. Quantities carry their
# unit: "20ms", "25MB" (10^6), "80GiB" (2^30), "100Gb/s" (bits), "25GB/s" (bytes),
# "312TFLOP/s".
`)
	setting.WriteReference(&b, Config{})
	return b.String()
}

// Examples lists the embedded examples by name.
func Examples() []string { return embedded("*.toml") }

// Plans lists the embedded plans of models as they were published: plans/NAME.
func Plans() []string { return embedded("plans/*.toml") }

// Published returns the name of the embedded plan that the configuration is, without any change: that of
// a training that ran. It returns "" for other configurations.
func (c *Config) Published() string {
	label := c.sources[0].label
	if len(c.sources) > 1 || c.folder != "" || !slices.Contains(Plans(), label) {
		return ""
	}
	return label
}

func embedded(pattern string) []string {
	names, _ := fs.Glob(files, pattern) // fails only for a bad pattern
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".toml")
	}
	slices.Sort(names) // of files, "exec-mlp.toml" is before "exec.toml"
	return names
}

// Example returns the text of an embedded example, or the plan of a preset or of a config.json.
func Example(name string) (string, error) {
	data, ok := example(name)
	if !ok {
		data, ok = presetPlan(name)
	}
	if ok {
		return string(data), nil
	}
	switch found, err := lookUp(name); {
	case err == nil && found.assumed: // with the path from here, where the text will be
		file := fmt.Sprintf("file = %q", filepath.Base(found.label))
		return strings.Replace(string(found.data), file, fmt.Sprintf("file = %q", found.label), 1), nil
	case err == nil:
		return "", fmt.Errorf("%s: is a file of yours, which psim run reads as it is; name an example (psim list "+
			"examples), a preset or the config.json of a network", name)
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	return "", noExample(name)
}

// example reads an embedded example, or a published plan: plans/NAME.
func example(name string) ([]byte, bool) {
	if strings.ContainsAny(strings.TrimPrefix(name, "plans/"), `/\`) { // not an example, but a file of another folder
		return nil, false
	}
	data, err := files.ReadFile(strings.TrimSuffix(name, ".toml") + ".toml")
	return data, err == nil
}

// Names lists what a configuration can be named by, apart from files: examples, published plans
// and presets. Presets are marked if a word begins with the mark.
func Names(word string) []string {
	if !strings.HasPrefix(word, presetMark) {
		examples := Examples()
		own := slices.DeleteFunc(presets(), func(name string) bool { return slices.Contains(examples, name) })
		return slices.Concat(examples, Plans(), own)
	}
	marked := presets()
	for i, name := range marked {
		marked[i] = presetMark + name
	}
	return marked
}

// ofConfig says how to name other networks than the presets.
const ofConfig = "; for another model, give its config.json (psim run path/to/config.json --device NAME)"

// noPreset says that there is no preset of a name.
func noPreset(name string) string {
	near, hint := models.NearPresets(name), ofConfig
	if strings.HasSuffix(near, "?") && !hfconfig.Family(name) { // a typing error
		hint = ""
	}
	return "there is no such preset (psim list models)" + hint + near
}

// noFile says that there is no file of a name. If it may have been meant as such, it says that there is
// no example or preset either.
func noFile(name string) string {
	folder, base := filepath.Split(name)
	path := folder != "" && folder != "plans/"
	near, ok := nearFile(folder, base)
	switch {
	case path && ok:
		return "no such file; did you mean " + near + "?"
	case path:
		return "no such file"
	case ok:
		return "no such file, and no example or preset of that name; did you mean " + near + "?"
	}
	return "no such file, and no example or preset of that name" + nearNames(name)
}

// nearFile finds a configuration in a folder whose name is near another.
func nearFile(folder, name string) (string, bool) {
	var files []string
	entries, _ := os.ReadDir(cmp.Or(folder, ".")) // empty if it cannot be read
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".toml") {
			files = append(files, e.Name())
		}
	}
	best, ok := nearest.Word(name, files)
	return folder + best, ok
}

// nearNames suggests examples and presets for an unknown name, and a config.json for the name of a
// family of networks. Plans are suggested for plans.
func nearNames(name string) string {
	name = strings.TrimSuffix(name, ".toml")
	if strings.HasPrefix(name, "plans/") {
		return cmp.Or(nearest.Suggest(name, Plans()), "; the plans are "+strings.Join(Plans(), ", "))
	}
	names := slices.Concat(Examples(), presets())
	hint := ""
	if hfconfig.Family(name) {
		hint = ofConfig
	}
	if best, ok := nearest.Word(name, names); ok {
		return hint + "; did you mean " + best + "?"
	}
	if kin := nearest.Kin(name, names); kin != nil {
		hint += "; the nearest: " + strings.Join(kin, ", ")
	}
	return hint + "; psim list examples and psim list models list the names"
}

// noExample returns the error for a name that is neither an example nor a preset.
func noExample(name string) error {
	if preset, marked := strings.CutPrefix(name, presetMark); marked {
		return fmt.Errorf("%s: %s", name, noPreset(preset))
	}
	if strings.HasSuffix(name, ".json") {
		return fmt.Errorf("%s: no such file", name)
	}
	return fmt.Errorf("unknown example or preset %q%s", name, nearNames(name))
}

// Catalog is the embedded catalog of devices and links, in the order of its
// files. The machine of a configuration has its values without their Source.
var Catalog = sync.OnceValue(func() (c costmodel.Catalog) {
	for _, e := range catalog.Read[costmodel.Device]("devices") {
		e.Value.Name = e.Name
		catalog.FoldAll(e.Value.Source)
		c.Devices = append(c.Devices, e.Value)
	}
	for _, e := range catalog.Read[link.Link]("links") {
		e.Value.Name = e.Name
		catalog.FoldAll(e.Value.Source)
		c.Links = append(c.Links, e.Value)
	}
	return c
})

// The entries of Catalog without the sources of their values.
var (
	devicesByName = catalog.ByName[costmodel.Device]("devices")
	linksByName   = catalog.ByName[link.Link]("links")
)

// catalogOf returns the part of Catalog that a machine names: to decode all takes longer than a small
// pipeline takes to simulate. If a name is not there, catalogOf returns all, which a message lists.
func catalogOf(o costmodel.MachineOptions) (c costmodel.Catalog) {
	device, known := devicesByName(o.Device)
	if o.Device != "" {
		if !known {
			return Catalog()
		}
		device.Name = o.Device
		c.Devices = append(c.Devices, device)
	}
	for _, of := range []link.Options{o.Link.Over(device.Link), o.Network, o.HostLink.Over(device.HostLink)} {
		if of.Name == "" {
			continue
		}
		l, known := linksByName(of.Name)
		if !known {
			return Catalog()
		}
		l.Name = of.Name
		c.Links = append(c.Links, l)
	}
	return c
}

// ExampleSummary returns the comment at the head of an embedded example, up to the end of its
// first sentence or clause.
func ExampleSummary(name string) string {
	data, _ := example(name)
	var words []string
	for line := range strings.Lines(string(data)) {
		comment, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	text := strings.Join(words, " ")
	if end := strings.IndexAny(text, ".:;"); end > 0 {
		text = text[:end]
	}
	return text
}
