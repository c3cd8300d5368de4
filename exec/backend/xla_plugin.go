//go:build xla && cgo

package backend

/*
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla_table.h"

// The beginning of the arguments for a client.
struct create_arguments {
	size_t size;
	void *extensions;
	const void *options;
	size_t option_count;
};

static struct table *get_table(void *get) { return ((struct table *(*)(void))get)(); }

static const struct table *used; // of the plugin in use
static int without_options;

static void *create_client(void *arguments) {
	if (without_options) ((struct create_arguments *)arguments)->option_count = 0;
	return used->functions[CLIENT_CREATE](arguments);
}

static void use(const struct table *t, int plain) {
	used = t;
	without_options = plain;
}

static void *initialized(void *arguments) { return NULL; }

// What psim does in place of a plugin's own functions (xla_compile.go).
extern void *psim_compile(void *arguments), *psim_memory(void *arguments), *psim_destroy(void *arguments);

// Copies a table, and lets psim's functions make clients and compile. A plugin is
// initialized once only.
static struct table *copy(const struct table *t, int is_initialized) {
	struct table *c = calloc(1, t->size);
	if (!c) return NULL;
	memcpy(c, t, t->size);
	c->functions[CLIENT_CREATE] = create_client;
	c->functions[COMPILE] = psim_compile;
	c->functions[MEMORY] = psim_memory;
	c->functions[DESTROY_EXECUTABLE] = psim_destroy;
	if (is_initialized) c->functions[INITIALIZE] = initialized;
	return c;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"
)

// knownMajor names the major version of PJRT that gomlx is written for.
const knownMajor = 0

// A loadedPlugin is a plugin in this process. gomlx takes a plugin's kind from the letters of its
// name, and gives options to every one. So psim registers it under the name of the platform that
// it reports, with a table of functions in which making a client leaves options out where they are
// not known.
type loadedPlugin struct {
	PluginInfo
	table *C.struct_table
	name  string // that gomlx knows it by
}

// loadedPlugins holds the plugins of this process by file, guarded by xlaMutex.
var loadedPlugins = map[string]*loadedPlugin{}

// registered holds them by the name that gomlx knows.
var registered sync.Map

// load loads a plugin and the libraries next to it, or finds it loaded. gomlx does not compare
// versions, and logs several errors if loading fails; load returns a single one.
func load(plugin Plugin) (*loadedPlugin, error) {
	if p := loadedPlugins[plugin.File]; p != nil {
		return p, nil
	}
	p := &loadedPlugin{}
	err := setEnvironment(plugin)
	if err == nil {
		loadLibraries(plugin)
		err = p.read(plugin.File)
	}
	if err == nil {
		err = p.register()
	}
	if err != nil {
		if p.Version != "" {
			return p, fmt.Errorf("plugin %s (PJRT %s): %w%s", plugin.File, p.Version, err, hint(plugin, err))
		}
		return p, fmt.Errorf("plugin %s: %w%s", plugin.File, err, hint(plugin, err))
	}
	loadedPlugins[plugin.File] = p
	return p, nil
}

// read loads the library and reads its version.
func (p *loadedPlugin) read(file string) error {
	handle, err := openLibrary(file)
	if err != nil {
		return fmt.Errorf("it does not load: %w", err)
	}
	name := C.CString("GetPjrtApi")
	defer C.free(unsafe.Pointer(name))
	get := C.dlsym(handle, name)
	if get == nil {
		return errors.New("not a PJRT plugin: it lacks the function GetPjrtApi")
	}
	if p.table = C.get_table(get); p.table == nil {
		return errors.New("its function GetPjrtApi returned nothing")
	}
	version := fmt.Sprintf("%d.%d", p.table.major, p.table.minor)
	if p.table.major != knownMajor || p.table.size < C.sizeof_struct_table {
		return fmt.Errorf("it has PJRT %s, but this psim needs %d.x", version, knownMajor)
	}
	p.Version = version
	return nil
}

// register finds the platform from a first client, and gives the plugin to gomlx under its name.
// The client takes memory when it needs it, as far as the plugin knows that option.
func (p *loadedPlugin) register() (err error) {
	defer recoverAsError("XLA", &err)
	number := len(loadedPlugins)
	first := fmt.Sprintf("/plugin/%d", number)
	if err := p.add(first, 0); err != nil {
		return err
	}
	plugin, err := pjrt.GetPlugin(first)
	if err != nil {
		return err
	}
	C.use(p.table, 0)
	client, err := plugin.NewClient(pjrt.NamedValuesMap{"preallocate": false})
	if err != nil {
		p.Plain = true
		C.use(p.table, 1)
		client, err = plugin.NewClient(nil)
	}
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	p.Platform = client.Platform()
	p.Plain = p.Plain || p.Platform == CPUPlatform
	p.name = filepath.Join("/", p.Platform, fmt.Sprint(number))
	if err := client.Destroy(); err != nil {
		return err
	}
	registered.Store(p.name, p)
	return p.add(p.name, 1)
}

// add gives the plugin to gomlx under a name.
func (p *loadedPlugin) add(name string, initialized C.int) error {
	return pjrt.RegisterPreloadedPlugin(name, uintptr(unsafe.Pointer(C.copy(p.table, initialized))))
}

// open makes a client.
func (p *loadedPlugin) open(o ClientOptions) (compute.Backend, error) {
	plain := C.int(0)
	if p.Plain {
		plain = 1
	}
	C.use(p.table, plain)
	return xla.New(o.config(p.name))
}
