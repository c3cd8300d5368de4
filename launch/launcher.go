package launch

import (
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// isPosition reports whether a variable is one of the arguments of a script or a function.
func isPosition(name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil || name == "@" || name == "*" || name == "#"
}

// positional sets the arguments of a script or a function, and returns what puts the old ones back.
func (s *shell) positional(list []string) (restore func()) {
	old := map[string]expand.Variable{}
	clear := func(name string, _ expand.Variable) bool { return isPosition(name) }
	for name, v := range s.variables {
		if isPosition(name) {
			old[name] = v
		}
	}
	maps.DeleteFunc(s.variables, clear)
	for n, value := range list {
		s.variables[strconv.Itoa(n+1)] = expand.Variable{Set: true, Kind: expand.String, Str: value}
	}
	all := expand.Variable{Set: true, Kind: expand.Indexed, List: list}
	s.variables["@"], s.variables["*"] = all, all
	s.variables["#"] = expand.Variable{Set: true, Kind: expand.String, Str: strconv.Itoa(len(list))}
	return func() {
		maps.DeleteFunc(s.variables, clear)
		maps.Copy(s.variables, old)
	}
}

// shift takes the first arguments away, one if no number is given; none if there are fewer.
func (s *shell) shift(words []string) {
	n := 1
	if len(words) > 0 {
		n, _ = strconv.Atoi(words[0])
	}
	if list := s.variables["@"].List; n >= 0 && n <= len(list) {
		s.positional(list[n:])
	}
}

// newShell returns a shell in which nothing is set but what bash sets.
func newShell(f Input, files []Input, a *arguments) *shell {
	s := &shell{
		variables: map[string]expand.Variable{}, functions: map[string]*syntax.Stmt{}, files: files, arguments: a,
	}
	for name, value := range map[string]string{"BASH_SOURCE": path.Base(f.Label), "RANDOM": "0"} {
		s.variables[name] = expand.Variable{Set: true, Kind: expand.String, Str: value}
	}
	return s
}

// words returns the variables that hold one word.
func (s *shell) words() map[string]string {
	values := map[string]string{}
	for name, v := range s.variables {
		if v.Kind == expand.String && !isPosition(name) && name != "#" && name != "BASH_SOURCE" && name != "RANDOM" {
			values[name] = v.Str
		}
	}
	return values
}

// launcher reads the sizes that torchrun, srun, mpirun and sbatch are given, up to the program.
func (s *shell) launcher(words []string) {
	for i, word := range words {
		if strings.HasSuffix(word, ".py") && !strings.HasPrefix(word, "-") {
			break
		}
		flag, value, joined := strings.Cut(word, "=")
		switch short := len(word) > 2 && (strings.HasPrefix(word, "-N") || strings.HasPrefix(word, "-n")); {
		case joined:
		case short && word[2] >= '0' && word[2] <= '9':
			flag, value = word[:2], word[2:]
		case i+1 < len(words):
			value = words[i+1]
		}
		if gpus := strings.TrimPrefix(value, "gpu:"); gpus != value && strings.HasSuffix(flag, "gres") {
			flag, value = "gpus_per_node", gpus[strings.LastIndex(gpus, ":")+1:]
		}
		name := strings.ReplaceAll(strings.TrimLeft(flag, "-"), "-", "_")
		if name == "include" && strings.HasPrefix(flag, "--") {
			s.included(value)
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > mostDevices {
			s.unsized(flag, name, value)
			continue
		}
		nodes := &s.arguments.nodes
		switch name {
		case "nproc_per_node", "ntasks_per_node", "gpus_per_node", "num_gpus":
			nodes.each = n
		case "nnodes", "nodes", "num_nodes", "N":
			nodes.count = n
			for _, name := range []string{"SLURM_NNODES", "SLURM_JOB_NUM_NODES"} {
				s.variables[name] = expand.Variable{Set: true, Kind: expand.String, Str: value}
			}
		case "n", "np", "ntasks":
			nodes.tasks = n
		}
	}
}

// mostDevices limits the nodes and the devices of a node that a launcher is believed to have.
const mostDevices = 1 << 20

// unsized notes that a launcher's number of devices cannot be read, and forgets what a header of sbatch says: perhaps
// not all of these are used.
func (s *shell) unsized(flag, name, value string) {
	switch name {
	case "nproc_per_node", "num_gpus", "nnodes", "num_nodes":
		s.arguments.nodes = nodes{}
		s.arguments.notes = append(s.arguments.notes, fmt.Sprintf("%s %.40s: does not say how many devices train; "+
			"--devices N says it", flag, value))
	}
}

// included counts the devices that deepspeed's --include names: host:0,1@host:0,1.
func (s *shell) included(value string) {
	all, each := 0, 0
	for host := range strings.SplitSeq(value, "@") {
		_, list, listed := strings.Cut(host, ":")
		if !listed {
			s.unsized("--include", "num_gpus", value)
			return
		}
		n := 1 + strings.Count(list, ",")
		all, each = all+n, max(each, n)
	}
	s.arguments.nodes = nodes{count: 1, each: each, tasks: all}
}
