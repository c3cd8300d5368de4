//go:build xla && cgo

package backend

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
)

// XLACompiled says whether this program can use XLA.
const XLACompiled = true

// xlaMutex guards the environment and the standard output of the process while a plugin is
// loaded.
var xlaMutex sync.Mutex

// Without this gomlx would download a plugin if it finds none.
func init() { xla.EnableAutoInstall(false) }

// idle holds clients on cores that nobody uses, by the name of the plugin. With them stay the programs that they
// have compiled, which takes most of the time of a short run.
var idle = struct {
	sync.Mutex
	clients map[string][]compute.Backend
}{clients: map[string][]compute.Backend{}}

// client takes an idle client, or makes one.
func (p *loadedPlugin) client(o ClientOptions) (made compute.Backend, err error) {
	idle.Lock()
	list := idle.clients[p.name]
	if last := len(list) - 1; last >= 0 {
		made, idle.clients[p.name] = list[last], list[:last]
	}
	idle.Unlock()
	if made == nil {
		made, err = p.open(o)
	}
	return made, err
}

// keep lets the client of some devices be idle once all of them are closed.
func (p *loadedPlugin) keep(devices []*LocalDevice) {
	open := len(devices)
	for _, d := range devices {
		d.close = sync.OnceFunc(func() {
			idle.Lock()
			defer idle.Unlock()
			if open--; open == 0 {
				idle.clients[p.name] = append(idle.clients[p.name], d.Backend)
			}
		})
	}
}

// OpenXLA loads a plugin, makes a client and returns all of its devices. They share the client,
// so tensors are copied directly between them. It runs a tiny program on the first.
func OpenXLA(plugin Plugin, o ClientOptions) (devices []*LocalDevice, err error) {
	xlaMutex.Lock()
	defer xlaMutex.Unlock()
	defer divertOutput()()
	loaded, err := load(plugin)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("plugin %s (PJRT %s): %w%s", plugin.File, loaded.Version, err, hint(plugin, err))
		}
	}()
	defer recoverAsError("XLA", &err)
	backend, err := loaded.client(o)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if backend.NumDevices() == 0 {
		backend.Finalize()
		return nil, errors.New("it has no devices")
	}
	for number := range backend.NumDevices() {
		devices = append(devices, &LocalDevice{Backend: backend, Number: compute.DeviceNum(number)})
	}
	if err = devices[0].Try(); err != nil {
		backend.Finalize()
		return nil, err
	}
	if loaded.Platform == CPUPlatform {
		loaded.keep(devices)
	}
	return devices, nil
}

// config writes the text with which gomlx configures a client. Products keep all bits of
// float32, because numbers are compared between devices. Memory is taken when it is needed,
// because it is measured. Nothing is shared with the host, so that bytes are counted alike on
// all devices.
func (o ClientOptions) config(plugin string) string {
	parts := []string{plugin, "tf32=false", "preallocate=false", "shared_buffers=false"}
	if o.Visible != nil {
		var numbers []string
		for _, n := range o.Visible {
			numbers = append(numbers, strconv.Itoa(n))
		}
		parts = append(parts, "visible_devices="+strings.Join(numbers, ";"))
	}
	if o.MemoryFraction > 0 {
		parts = append(parts, "memory_fraction="+strconv.FormatFloat(o.MemoryFraction, 'g', 6, 64))
	}
	return strings.Join(parts, ",")
}

// Inspect loads a plugin and says what it is. It makes a client for that.
func (p Plugin) Inspect() (PluginInfo, error) {
	xlaMutex.Lock()
	defer xlaMutex.Unlock()
	defer divertOutput()()
	loaded, err := load(p)
	return loaded.PluginInfo, err
}

// hint says what to try if a plugin does not work.
func hint(plugin Plugin, err error) string {
	if export := plugin.Export(); export != "" {
		return "\nif a library is missing, run this before psim:\n  " + export
	}
	if strings.Contains(err.Error(), "cannot open shared object file") {
		return "\nthe library is not next to it; install it there " +
			"(those of CUDA: pip install \"jax[cuda12]\"), or set LD_LIBRARY_PATH to its folder"
	}
	return ""
}

// setEnvironment sets the variables that XLA reads when it is loaded, except those that the
// user has set.
func setEnvironment(plugin Plugin) error {
	set := map[string]string{}
	// gomlx hides XLA's errors unless this is set; 2 shows only errors.
	if os.Getenv("TF_CPP_MIN_LOG_LEVEL") == "3" && !setAtStart("TF_CPP_MIN_LOG_LEVEL") {
		set["TF_CPP_MIN_LOG_LEVEL"] = "2"
	}
	const dataFolder = "--xla_gpu_cuda_data_dir"
	flags := os.Getenv("XLA_FLAGS")
	// XLA splits the flags at spaces.
	if plugin.Toolkit != "" && !strings.Contains(flags, dataFolder) && !strings.ContainsAny(plugin.Toolkit, " \t\n") {
		set["XLA_FLAGS"] = strings.TrimSpace(flags + " " + dataFolder + "=" + plugin.Toolkit)
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// setAtStart reports whether a variable was set when the process started, if the system says
// so.
func setAtStart(name string) bool {
	start, err := os.ReadFile("/proc/self/environ")
	return err == nil && bytes.Contains(append([]byte{0}, start...), []byte("\x00"+name+"="))
}
