package launch

import (
	"maps"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
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
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			continue
		}
		nodes := &s.arguments.nodes
		switch strings.ReplaceAll(strings.TrimLeft(flag, "-"), "-", "_") {
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
