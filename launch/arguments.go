package launch

import (
	_ "embed"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"sync"

	"psim/launch/understood"
)

// arguments are those of one start of a program.
type arguments struct {
	label  string            // of the file, for messages
	values map[string]string // by name, as Python prints them
	given  map[string]string // the flags that were given, by name; nil for a log, which prints all
	other  []string          // flags that are in no table
	notes  []string          // what the script left open
	nodes  nodes             // of the launcher; zero in a log
	empty  []string          // flags of sizes without a value
	asked  map[string]bool   // names whose values were asked for
	keyed  keyedCommand      // what reads the command line, where it starts another program
	words  []string          // that command line
	used   []string          // labels of the files that it reads
}

// reads reports whether a file is the script, or one that it reads.
func (a *arguments) reads(f Input) bool {
	return f.Label == a.label || slices.Contains(a.used, f.Label)
}

// A keyedCommand reads a command line whose flags are keys, with the files that are given.
type keyedCommand func(Input, []string, []Input, Options) (*Import, error)

// nodes are what a launcher says: torchrun, srun or sbatch.
type nodes struct{ count, each, tasks int }

// devices returns the number of devices; 0 if no launcher says it.
func (n nodes) devices() int {
	if n.tasks > 0 && n.each*max(1, n.count) < n.tasks {
		return n.tasks
	}
	return max(1, n.count) * n.each
}

//go:embed megatron.csv
var megatronCSV string

// forksCSV lists arguments of Megatron-DeepSpeed and of Pai-Megatron-Patch, in the same columns.
//
//go:embed forks.csv
var forksCSV string

// A parameter is an argument of a program, as its table has it.
type parameter struct {
	name, value, effect string
	flags               map[string]string // flag → the value that it stands for; "" where a value follows
	list, fork          bool              // fork: it is of a fork of Megatron-LM alone
}

// The arguments of Megatron-LM at commit d98e8a6 of 2026-08-22: names, flags and defaults as its own parser
// has them, effects as psim sees them.
const megatronVersion = "2026-08-22 (d98e8a6)"

type parameters struct {
	byName, byFlag map[string]*parameter
}

// megatron returns the table of Megatron-LM's arguments.
var megatron = sync.OnceValue(func() parameters {
	p := parameters{map[string]*parameter{}, map[string]*parameter{}}
	p.add(megatronCSV, false)
	p.add(forksCSV, true)
	return p
})

// add takes the rows of a table whose arguments are not there.
func (p parameters) add(table string, fork bool) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		panic(err)
	}
	for _, row := range rows[1:] {
		if p.byName[row[0]] != nil {
			continue
		}
		a := &parameter{
			name: row[0], value: row[3], effect: row[4], flags: map[string]string{}, list: row[2] == "list", fork: fork,
		}
		for flag := range strings.FieldsSeq(row[1]) {
			flag, value, _ := strings.Cut(flag, "=")
			a.flags[flag] = value
			p.byFlag[flag] = a
		}
		p.byName[a.name] = a
	}
}

// parse reads a command line. A flag takes what follows it up to the next one.
func (p parameters) parse(words []string, a *arguments) {
	for i := 0; i < len(words); {
		flag, value, joined := strings.Cut(words[i], "=")
		i++
		if !strings.HasPrefix(flag, "--") {
			continue
		}
		var values []string
		if joined {
			values = []string{value}
		} else {
			for i < len(words) && !isFlag(words[i]) {
				values = append(values, words[i])
				i++
			}
		}
		p.set(a, flag, values)
	}
}

// isFlag tells a flag from a negative number.
func isFlag(word string) bool {
	if _, err := strconv.ParseFloat(word, 64); err == nil {
		return false
	}
	return strings.HasPrefix(word, "--")
}

// set takes a flag and what follows it.
func (p parameters) set(a *arguments, flag string, values []string) {
	param := p.byFlag[flag]
	if param == nil { // Python takes both
		param = p.byFlag[strings.ReplaceAll(flag, "_", "-")]
	}
	if param == nil {
		a.other = append(a.other, flag)
		return
	}
	value := param.flags[flag]
	switch {
	case value != "":
	case param.list && len(values) > 1:
		value = "[" + strings.Join(values, ", ") + "]"
	case len(values) > 0:
		value = values[0]
	case param.effect == understood.EffectMapped:
		a.empty = append(a.empty, flag)
	}
	a.values[param.name], a.given[param.name] = value, flag
}

// get returns an argument's value; "" if it is None or not known.
func (a *arguments) get(name string) string {
	if a.asked == nil {
		a.asked = map[string]bool{}
	}
	a.asked[name] = true
	if v := strings.Trim(a.values[name], `'" `); v != "None" {
		return v
	}
	return ""
}

// on reports whether a switch is on.
func (a *arguments) on(name string) bool { return a.get(name) == "True" }

// integer returns a whole number; 0 if it is None, not known, or none.
func (a *arguments) integer(name string) int {
	n, err := strconv.Atoi(strings.ReplaceAll(a.get(name), "_", ""))
	if err != nil {
		f, _ := strconv.ParseFloat(a.get(name), 64)
		return int(f)
	}
	return n
}

// number returns a number; 0 if it is None or not known.
func (a *arguments) number(name string) float64 {
	f, _ := strconv.ParseFloat(a.get(name), 64)
	return f
}

// has reports whether a program of this version has an argument.
func (a *arguments) has(name string) bool { _, ok := a.values[name]; return ok }

// same reports whether two values of Python are equal.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, xErr := strconv.ParseFloat(a, 64)
	y, yErr := strconv.ParseFloat(b, 64)
	return xErr == nil && yErr == nil && x == y || strings.Trim(a, "'\"") == strings.Trim(b, "'\"")
}
