package programs

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
)

// Processor names the processor and its cores, as far as the system tells.
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
