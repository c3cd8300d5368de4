package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"psim/configs/catalog"
	"psim/costmodel"
	"psim/internal/nearest"
	"psim/internal/setting"
)

// A KnownMachine is a machine of the catalog, which machine.file names.
type KnownMachine struct {
	Name        string            `toml:"-"`
	Description string            `toml:"description"`
	Machine     map[string]any    `toml:"machine"` // its [machine] section
	Source      map[string]string `toml:"source"`
}

// KnownMachines is the catalog of machines, in the order of its file.
var KnownMachines = sync.OnceValue(func() (list []KnownMachine) {
	for _, e := range catalog.Read[KnownMachine]("machines") {
		e.Value.Name = e.Name
		catalog.FoldAll(e.Value.Source)
		list = append(list, e.Value)
	}
	return list
})

// knownMachine returns the text of the machine file that stands for a name of the catalog.
func knownMachine(name string) (text []byte, ok bool) {
	list := KnownMachines()
	i := slices.IndexFunc(list, func(m KnownMachine) bool { return m.Name == name })
	if i < 0 {
		return nil, false
	}
	var b bytes.Buffer
	err := toml.NewEncoder(&b).Encode(map[string]any{"machine": list[i].Machine})
	return b.Bytes(), err == nil
}

// machineText returns the text of the machine file that is named, and whether it is of the
// catalog: a file of that name comes first.
func (c *Config) machineText() (data []byte, known bool, err error) {
	path := c.Machine.File
	data, err = c.readMachine(path, c.sources[c.machineSource()])
	if errors.Is(err, fs.ErrNotExist) {
		if text, ok := knownMachine(path); ok {
			return text, true, nil
		}
		if names := catalog.Names("machines"); !strings.ContainsAny(path, `./\`) {
			err = errors.New("no such file, and no machine of that name in the catalog" + nearest.Suggest(path, names))
		}
	}
	return data, false, err
}

// measuredHost reports whether [machine] is of a file that was measured, host and all. A machine
// of the catalog only names devices and links.
func (c *Config) measuredHost() bool {
	if c.Machine.File == "" {
		return false
	}
	_, known, _ := c.machineText()
	return !known
}

// deviceName returns the name of the device, that of the machine file if one is named.
func (c *Config) deviceName() string {
	options, err := c.machineOver(nil)
	if err != nil { // building reports it
		return c.Machine.Device
	}
	return options.Device
}

// A Site is what a cluster's own runs say of it.
type Site struct {
	// Device and Stack are what its runs had; "" if they differed.
	Device string `toml:"device"`
	Stack  string `toml:"stack"`
	// Runs are the runs that it was fitted to.
	Runs []SiteRun `toml:"run"`
}

// Settings describes [site].
func (Site) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "device", Text: "of the runs that a site was fitted to"}, {Key: "stack", Text: "of these runs"},
		{Key: "run", Text: "the runs that a site was fitted to"},
	}
}

// A SiteRun is the error of a run of a site.
type SiteRun struct {
	// Error is the logarithm of the measured over the predicted step time, with constants that have not seen
	// the run.
	Error float64 `toml:"error"`
}

// Settings describes [[site.run]].
func (SiteRun) Settings() []setting.Setting {
	return []setting.Setting{{Key: "error", Range: setting.Between(-10, 10), Text: "log of measured over predicted"}}
}

// siteFile is the content of the file that machine.site names.
type siteFile struct {
	Machine costmodel.MachineOptions `toml:"machine"`
	Site    Site                     `toml:"site"`
}

// Settings describes the file.
func (siteFile) Settings() []setting.Setting {
	return []setting.Setting{{Key: "machine"}, {Key: "site"}}
}

// siteKeys are the keys that a site may have.
var siteKeys = []string{"machine.clock", "machine.spread", "machine.network.speedup"}

// readSite reads the site that machine.site names. The source that it returns has the keys of the site that the
// experiment does not give; it is nil without a site.
func (c *Config) readSite() (site Site, over *source, err error) {
	path := c.Machine.Site
	if path == "" {
		return site, nil, nil
	}
	wrong := func(err error) error { return c.problem("machine", fmt.Errorf("site = %q: %w", path, err)) }
	data, err := c.readNamed(path, c.sitePath(), maxSize)
	if err != nil {
		return site, nil, wrong(err)
	}
	s, err := newSource(path, string(data), true)
	if err != nil {
		return site, nil, err
	}
	var file siteFile
	outOfRange, err := s.decode(&file)
	if err == nil {
		err = s.first(outOfRange)
	}
	if err != nil {
		return site, nil, err
	}
	var sets []string
	for _, key := range s.meta.Keys() {
		name := key.String()
		value := s.value(name)
		switch _, table := value.(map[string]any); {
		case table || strings.HasPrefix(name, "site."):
		case !slices.Contains(siteKeys, name):
			may := "is not of a site, which may have " + strings.Join(siteKeys, ", ")
			at, _ := s.find(name)
			return site, nil, s.at(at.value, name, may)
		case !c.Defined(name):
			sets = append(sets, name+" = "+setting.Quote(value))
		}
	}
	if err := s.siteComplete(); err != nil {
		return site, nil, wrong(err)
	}
	over, err = newSource("site "+path, strings.Join(sets, "\n"), false)
	return file.Site, over, err
}

// siteComplete reports what a site's file lacks, as where it was cut off.
func (s *source) siteComplete() error {
	count := map[string]int{}
	for _, key := range s.meta.Keys() {
		count[key.String()]++
	}
	switch runs := count["site.run"]; {
	case count["site.run.error"] < runs:
		return fmt.Errorf("one of its %d runs ([[site.run]]) has no error", runs)
	case runs == 0 && !slices.ContainsFunc(siteKeys, s.defines):
		return fmt.Errorf("has no constants (%s) and no runs; is it cut off?", strings.Join(siteKeys, ", "))
	}
	return nil
}

// sitePath returns the path of the site: from the current folder if a flag names it, otherwise from the folder of
// the configuration.
func (c *Config) sitePath() string {
	named := slices.IndexFunc(c.sources, func(s *source) bool { return !s.lines && s.defines("machine.site") })
	if _, err := os.Stat(c.Machine.Site); err == nil && named >= 0 {
		return c.Machine.Site
	}
	return c.resolve(c.Machine.Site)
}

// Site returns what the runs of the experiment's site say; it is empty without a site.
func (c *Config) Site() Site { return c.site }
