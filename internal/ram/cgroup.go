package ram

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// A layout says where a version of Linux control groups keeps the memory of a group.
type layout struct {
	roots                   []string // where it is mounted
	limit, usage, reclaimed string   // files, and the key in memory.stat of cache that can be freed
}

func version1() layout {
	return layout{
		[]string{"sys/fs/cgroup/memory"}, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
	}
}

func version2() layout {
	return layout{[]string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}, "memory.max", "memory.current", "inactive_file"}
}

// unlimited stands for a group without a limit.
const unlimited = math.MaxInt64

// container returns the memory that the control groups of this process leave free.
func container(root fs.FS) Room {
	data, _ := fs.ReadFile(root, "proc/self/cgroup") // a system without groups lacks it
	left := Room{Free: unlimited}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			left = left.less(version2().left(root, parts[2]))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			left = left.less(version1().left(root, parts[2]))
		}
	}
	return left
}

// left returns the least memory that a group and the groups around it leave free. In a
// container the path is often that of the host, and only its mounted root exists.
func (l layout) left(root fs.FS, group string) Room {
	left := Room{Free: unlimited}
	for _, mounted := range l.roots {
		for at := path.Clean("/" + group); ; at = path.Dir(at) {
			left = left.less(l.leftIn(root, path.Join(mounted, at)))
			if at == "/" {
				break
			}
		}
	}
	return left
}

// leftIn returns the memory that one group leaves free. For no limit, version 2 writes "max",
// and version 1 a number larger than any memory.
func (l layout) leftIn(root fs.FS, folder string) Room {
	limit, ok := number(root, path.Join(folder, l.limit))
	if !ok {
		return Room{Free: unlimited}
	}
	used, _ := number(root, path.Join(folder, l.usage))
	stat, _ := fs.ReadFile(root, path.Join(folder, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == l.reclaimed {
			cache, _ := strconv.ParseInt(value, 10, 64)
			used = max(0, used-cache)
		}
	}
	return Room{Free: max(0, limit-used), Container: limit}
}

// number reads a file with a number in it.
func number(root fs.FS, name string) (int64, bool) {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}
