package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// A GPU is a graphics processor that NVIDIA's driver offers to this machine or container.
type GPU struct {
	Device string `json:"device"` // its device file
	Model  string `json:"model"`  // "" if the driver does not say
}

// GPUs lists the GPUs without loading anything.
func (s PluginSearch) GPUs() (gpus []GPU) {
	models := s.gpuModels()
	devices, _ := filepath.Glob(filepath.Join(s.Root, "/dev/nvidia[0-9]*"))
	for _, device := range devices {
		number := strings.TrimPrefix(filepath.Base(device), "nvidia")
		gpus = append(gpus, GPU{Device: "/dev/nvidia" + number, Model: models[number]})
	}
	return gpus
}

// Driver returns the version of NVIDIA's driver; "" without one.
func (s PluginSearch) Driver() string {
	data, _ := os.ReadFile(filepath.Join(s.Root, "/proc/driver/nvidia/version")) // missing without a driver
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(strings.TrimPrefix(first, "NVRM version:"))
}

// gpuModels finds the names of GPUs by the number in their device file. In a container they
// include GPUs that it may not use.
func (s PluginSearch) gpuModels() map[string]string {
	models := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(s.Root, "/proc/driver/nvidia/gpus/*/information"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(line, ":")
			fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		if number, ok := fields["Device Minor"]; ok {
			models[number] = fields["Model"]
		}
	}
	return models
}

// Processor names the processor and its number of cores, if the system says so.
func Processor() string {
	name := "a processor of unknown name"
	model := regexp.MustCompile(`(?m)^model name\s*:\s*(.+?)\s*$`)
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := model.FindSubmatch(data); m != nil {
			name = string(m[1])
		}
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
}
