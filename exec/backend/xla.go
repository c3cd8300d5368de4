//go:build xla && cgo

package backend

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
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

// OpenXLA loads a plugin, makes a client and returns all of its devices. They share the client,
// so tensors are copied directly between them. It runs a tiny program on the first.
func OpenXLA(plugin Plugin, o ClientOptions) (devices []*LocalDevice, err error) {
	xlaMutex.Lock()
	defer xlaMutex.Unlock()
	defer divertOutput()()
	version, err := load(plugin)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("plugin %s (PJRT %s): %w%s", plugin.File, version, err, hint(plugin))
		}
	}()
	defer recoverAsError("XLA", &err)
	backend, err := xla.New(o.config(plugin))
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
	if err = keepsBits(backend, devices[0].Description()); err == nil {
		err = devices[0].Try()
	}
	if err != nil {
		backend.Finalize()
		return nil, err
	}
	return devices, nil
}

// keepsBits refuses a CUDA plugin that gomlx does not recognise as one: gomlx then asks for no
// precision, and CUDA's products drop bits of float32. gomlx goes by the plugin's path, and
// only on amd64.
func keepsBits(backend compute.Backend, device string) error {
	isCUDA := strings.Contains(strings.ToLower(device), "cuda")
	if b, ok := backend.(*xla.Backend); isCUDA && ok && !b.IsCUDA() && runtime.GOARCH == "amd64" {
		return errors.New(`its devices are CUDA's, but gomlx knows that only from the letters "cuda" in the path; ` +
			`give one with them, such as a symbolic link, or matrix products would be inexact`)
	}
	return nil
}

// config writes the text with which gomlx configures a client. Products keep all bits of
// float32, because numbers are compared between devices. Memory is taken when it is needed,
// because it is measured. Nothing is shared with the host; gomlx would decide that by the
// letters "cpu" in the path.
func (o ClientOptions) config(plugin Plugin) string {
	parts := []string{plugin.File, "tf32=false", "preallocate=false", "shared_buffers=false"}
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

// PluginVersion loads a plugin and returns its version of PJRT, without making a client.
func PluginVersion(plugin Plugin) (string, error) {
	xlaMutex.Lock()
	defer xlaMutex.Unlock()
	defer divertOutput()()
	return load(plugin)
}

// load loads a plugin and the libraries next to it. gomlx does not compare versions, and logs
// several errors if loading fails; load returns a single one.
func load(plugin Plugin) (version string, err error) {
	if err := setEnvironment(plugin); err != nil {
		return "", fmt.Errorf("plugin %s: %w", plugin.File, err)
	}
	loadLibraries(plugin)
	major, minor, err := pjrtVersion(plugin.File)
	if err != nil {
		return "", fmt.Errorf("plugin %s: %w%s", plugin.File, err, hint(plugin))
	}
	version = fmt.Sprintf("%d.%d", major, minor)
	if major != knownMajor {
		return "", fmt.Errorf("plugin %s: it has PJRT %s, but this psim needs %d.x",
			plugin.File, version, knownMajor)
	}
	return version, nil
}

// hint says what to try if a plugin does not work.
func hint(plugin Plugin) string {
	if export := plugin.Export(); export != "" {
		return "\nif a library is missing, run this before psim:\n  " + export
	}
	if strings.Contains(strings.ToLower(plugin.File), "cuda") {
		return "\nNVIDIA's libraries are not next to it; if one is missing, " +
			"install them there (pip install \"jax[cuda12]\"), or set LD_LIBRARY_PATH to their folders"
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
	// gomlx does not find libraries in JAX's layout, and warns about that.
	if os.Getenv("GOPJRT_CUDA_CHECKS") == "" {
		set["GOPJRT_CUDA_CHECKS"] = "0"
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
