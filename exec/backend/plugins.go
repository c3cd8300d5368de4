package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PluginVariable names the environment variable that says where XLA's plugin is: files or
// folders, with the system's list separator between them.
const PluginVariable = "PJRT_PLUGIN_LIBRARY_PATH"

// A Plugin is a PJRT plugin: the shared library through which XLA computes on a kind of device.
type Plugin struct {
	// File is its absolute path.
	File string
	// Libraries are the folders of NVIDIA's Python packages next to it. A CUDA plugin needs
	// them, and a Go program does not load them by itself.
	Libraries []string
	// Toolkit is the folder of the package with CUDA's assembler and device library; ""
	// without such a package.
	Toolkit string
}

// A PluginSearch says where to look for plugins.
type PluginSearch struct {
	// Getenv is os.Getenv, or a test's.
	Getenv func(string) string
	// Root is put in front of the system's folders; "" outside tests.
	Root string
}

// A PluginInfo is what a plugin says of itself once it is loaded.
type PluginInfo struct {
	// Version is that of the PJRT that it was built for.
	Version string
	// Platform names the kind of devices: "cpu", "cuda", "rocm".
	Platform string
	// Plain says that its clients get no options: those of CPUs need no options, and some plugins
	// refuse what they do not know.
	Plain bool
}

// CPUPlatform is the name of the platform whose devices are the cores of the machine.
const CPUPlatform = "cpu"

// CPUPlugin names the Python package with the plugin for CPUs that psim is tested with.
const CPUPlugin = "fastatomstruct-xla-cpu==2026.6.23"

// pluginNames lists patterns of plugin files, those of gomlx's installer and of Python packages,
// CUDA first.
var pluginNames = []string{
	"xla_cuda*plugin.so", "pjrt_c_api_cuda*_plugin.so", "pjrt_c_api_*_plugin.so",
	"pjrt-plugin-*.so", "pjrt_plugin_*.so", "libpjrt_*.so", "xla_cpu_pjrt.so",
}

// pluginPackages lists the folders of Python packages with plugins: JAX's for CUDA, and three
// for CPUs.
var pluginPackages = []string{
	"jax_plugins/xla_cuda*", "fastatomstruct_xla_cpu", "xla_plugins/xla_cpu_pjrt", "lammps_jax_pjrt_cpu",
}

// Plugins lists the plugins that were found, in order of preference, and the places that were
// searched: files, or patterns of folders. If PluginVariable is set, only the places that it
// names are searched.
func (s PluginSearch) Plugins() (found []Plugin, looked []string) {
	looked = s.places()
	known := map[string]bool{}
	for _, place := range looked {
		for _, file := range pluginsIn(place) {
			// A virtual environment's lib64 is its lib, and users link too.
			real, err := filepath.EvalSymlinks(file)
			if err != nil || known[real] {
				continue
			}
			known[real] = true
			if plugin, err := PluginAt(file); err == nil {
				found = append(found, plugin)
			}
		}
	}
	return found, looked
}

// pluginsIn lists the plugin files at a place: the place itself, or files in folders that match
// it.
func pluginsIn(place string) (files []string) {
	if info, err := os.Stat(place); err == nil && !info.IsDir() {
		return []string{place}
	}
	for _, name := range pluginNames {
		matches, _ := filepath.Glob(filepath.Join(place, name)) // fails only on a bad pattern
		files = append(files, matches...)
	}
	return files
}

// places lists where to look: the places that the user names or, by default, Python's packages
// and the folders of gomlx's installer.
func (s PluginSearch) places() (places []string) {
	if set := s.Getenv(PluginVariable); set != "" {
		return slices.DeleteFunc(filepath.SplitList(set), func(place string) bool { return !filepath.IsAbs(place) })
	}
	packages := s.pythonPackages()
	for _, name := range pluginPackages {
		for _, folder := range packages {
			places = append(places, filepath.Join(folder, name))
		}
	}
	var installed []string
	if home := s.Getenv("HOME"); home != "" {
		installed = append(installed, filepath.Join(home, ".local/lib/go-xla"))
	}
	for _, folder := range append(installed, filepath.Join(s.Root, "/usr/local/lib/go-xla")) {
		places = append(places, folder, filepath.Join(folder, "nvidia"))
		for _, name := range pluginPackages { // a wheel that was unpacked there
			places = append(places, filepath.Join(folder, name))
		}
	}
	return places
}

// pythonPackages lists patterns of the folders of Python packages: of the active environment,
// of the user, and of the system.
func (s PluginSearch) pythonPackages() (patterns []string) {
	below := func(folder string, elements ...string) {
		if folder != "" {
			patterns = append(patterns, filepath.Join(append([]string{folder}, elements...)...))
		}
	}
	home, pyenv := s.Getenv("HOME"), s.Getenv("PYENV_ROOT")
	below(s.Getenv("VIRTUAL_ENV"), "lib/python3*/site-packages")
	below(s.Getenv("CONDA_PREFIX"), "lib/python3*/site-packages")
	below(home, ".local/lib/python3*/site-packages")
	if pyenv == "" && home != "" {
		pyenv = filepath.Join(home, ".pyenv")
	}
	below(pyenv, "versions/*/lib/python3*/site-packages")
	for _, lib := range []string{"/usr/local/lib", "/usr/lib"} {
		below(filepath.Join(s.Root, lib), "python3*/site-packages")
		below(filepath.Join(s.Root, lib), "python3*/dist-packages")
	}
	return patterns
}

// PluginAt returns the plugin in a file, with the libraries next to it. It does not load it.
func PluginAt(file string) (Plugin, error) {
	if !filepath.IsAbs(file) {
		return Plugin{}, fmt.Errorf("plugin %q: the path must be absolute", file)
	}
	info, err := os.Stat(file)
	switch {
	case os.IsNotExist(err):
		return Plugin{}, fmt.Errorf("plugin %s: no such file", file)
	case err != nil:
		return Plugin{}, fmt.Errorf("plugin %s: %w", file, err)
	case !info.Mode().IsRegular():
		return Plugin{}, fmt.Errorf("plugin %s: not a file; give the path of the shared library (.so) itself", file)
	}
	p := Plugin{File: file}
	p.findLibraries()
	return p, nil
}

// findLibraries looks for NVIDIA's packages next to the plugin: two levels up in JAX's layout
// (jax_plugins/xla_cuda12/), one in gomlx's.
func (p *Plugin) findLibraries() {
	file := p.File
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	folder := filepath.Dir(file)
	for range 3 {
		libraries, _ := filepath.Glob(filepath.Join(folder, "nvidia", "*", "lib"))
		if len(libraries) > 0 {
			p.Libraries = libraries
			break
		}
		folder = filepath.Dir(folder)
	}
	if compilers, _ := filepath.Glob(filepath.Join(folder, "nvidia", "*", "nvvm", "libdevice")); len(compilers) > 0 {
		p.Toolkit = filepath.Dir(filepath.Dir(compilers[0]))
	}
}

// Export returns the shell command that lets the system's loader find the plugin's libraries.
// It returns "" for a plugin without libraries.
func (p Plugin) Export() string {
	if len(p.Libraries) == 0 {
		return ""
	}
	folders := strings.Join(p.Libraries, string(os.PathListSeparator))
	return "export LD_LIBRARY_PATH=" + folders + "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

// Find returns the plugin to use: the one in the file or, if file is "", the first that is
// found.
func (s PluginSearch) Find(file string) (Plugin, error) {
	if file != "" {
		return PluginAt(file)
	}
	found, looked := s.Plugins()
	if len(found) > 0 {
		return found[0], nil
	}
	if set := s.Getenv(PluginVariable); set != "" {
		return Plugin{}, fmt.Errorf("no XLA plugin was found: %s=%s does not contain the absolute path of a plugin; "+
			"correct it, or unset it to search the usual places", PluginVariable, set)
	}
	return Plugin{}, fmt.Errorf("no XLA plugin was found: install JAX's for GPUs (pip install \"jax[cuda12]\"), "+
		"or one for CPUs (pip install %s), or set %s to the plugin's file or folder\nlooked in:\n  %s",
		CPUPlugin, PluginVariable, strings.Join(looked, "\n  "))
}

// ClientOptions configure an XLA client, which owns memory on devices.
type ClientOptions struct {
	// Visible are the numbers of the devices that the client may use; nil is all of them.
	Visible []int
	// MemoryFraction is the part of a device's memory that the client may use, in (0, 1]; 0
	// leaves it to XLA (three quarters).
	MemoryFraction float64
}
