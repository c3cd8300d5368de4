package launch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Patch is what to change in a user's script, so that it starts another plan.
type Patch struct {
	Text  string  // as patch(1) reads it
	Lines int     // that differ
	Files []Input // those that differ, whole
}

// ErrNoScript is the error of a patch where no file is a launch script of bash.
var ErrNoScript = errors.New("there is no launch script to change")

// mostPatched limits a script that is changed, which is read again for every change that is tried, and mostTried how
// many are tried before one is kept.
const (
	mostPatched = 64 << 10
	mostTried   = 200
	mostPlaces  = 10 // of a flag, or of a variable
)

// NewPatch changes a script, and the files that it sources, as little as possible, so that the arguments in which two
// plans differ become those of the second. A change is kept only if the script, read once more, comes nearer to what is
// wanted. An error says what could not be reached.
func NewPatch(files []Input, o Options, from, to []Argument) (*Patch, error) {
	e := &editor{options: o}
	size := 0
	for _, f := range files {
		if isLog(f.Data) {
			continue
		}
		lines := strings.SplitAfter(string(f.Data), "\n")
		e.files = append(e.files, edited{label: f.Label, old: lines, lines: lines})
		size += len(f.Data)
	}
	if len(e.files) == 0 || strings.Contains(strings.Join(e.files[0].old, ""), "MODEL_ARGS:") {
		return nil, ErrNoScript
	}
	if size > mostPatched {
		return nil, fmt.Errorf("%s: has %d kB; psim changes scripts of at most %d kB", e.files[0].label, size>>10,
			mostPatched>>10)
	}
	before, err := e.values(e.files)
	if err != nil {
		return nil, err
	}
	e.want(before, from, to)
	for left := len(e.differ(before)); left > 0; {
		nearest := left
		var best []edited
		tried := e.candidates()
		for _, next := range tried[:min(mostTried, len(tried))] {
			values, err := e.values(next)
			if err != nil {
				continue // the change breaks the script
			}
			if n := len(e.differ(values)); n < nearest {
				nearest, best = n, next
			}
		}
		if best == nil {
			return nil, fmt.Errorf("%s: no change of one flag or variable makes it %s", e.files[0].label, e.missing())
		}
		e.files, left = best, nearest
	}
	return e.patch(), nil
}

// Over returns files as the patch leaves them, without logs.
func (p *Patch) Over(files []Input) (list []Input) {
	for _, f := range files {
		for _, changed := range p.Files {
			if changed.Label == f.Label {
				f = changed
			}
		}
		if !isLog(f.Data) {
			list = append(list, f)
		}
	}
	return list
}

// An edited file has its lines as they were and as they are; a line that is left out is empty.
type edited struct {
	label      string
	old, lines []string
}

// An editor changes a script.
type editor struct {
	options Options
	files   []edited
	wanted  map[string]string // arguments by name, as the script is to give them
}

// values reads the arguments that files give.
func (e *editor) values(files []edited) (map[string]string, error) {
	inputs := make([]Input, len(files))
	for i, f := range files {
		inputs[i] = Input{Label: f.label, Data: []byte(strings.Join(f.lines, ""))}
	}
	a, err := readScript(inputs[0], inputs, e.options)
	if err != nil {
		return nil, err
	}
	return a.values, nil
}

// want says which arguments the script is to give. Where it says a thing by another flag than psim would, it keeps it.
func (e *editor) want(before map[string]string, from, to []Argument) {
	byName := func(list []Argument) map[string]string {
		m := map[string]string{}
		for _, a := range list {
			m[a.Name] = a.Value
		}
		return m
	}
	first, second := byName(from), byName(to)
	e.wanted = maps.Clone(before)
	for name := range first {
		if _, ok := second[name]; !ok {
			delete(e.wanted, name)
		}
	}
	for name, value := range second {
		if old, ok := first[name]; !ok || old != value {
			e.wanted[name] = value
		}
	}
	const size, number = "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"
	if _, bySize := before[size]; bySize {
		delete(e.wanted, number)
		delete(e.wanted, size)
		layers, _ := strconv.Atoi(second["num_layers"])
		stages, _ := strconv.Atoi(second["pipeline_model_parallel_size"])
		if chunks, _ := strconv.Atoi(second[number]); chunks > 1 && stages > 0 {
			e.wanted[size] = strconv.Itoa(layers / stages / chunks)
		}
	}
	if _, short := before["recompute_activations"]; short {
		if second["recompute_granularity"] == "selective" && second["recompute_modules"] == "" {
			delete(e.wanted, "recompute_granularity")
		} else {
			delete(e.wanted, "recompute_activations")
		}
	}
}

// differ lists the arguments that are not as they are wanted.
func (e *editor) differ(values map[string]string) (names []string) {
	of := func(m map[string]string, name string) string {
		value, ok := m[name]
		if p := megatron().byName[name]; !ok && p != nil {
			value = p.value
		}
		if value == "None" {
			value = ""
		}
		return strings.Join(strings.FieldsFunc(value, punctuation), " ")
	}
	all := maps.Clone(values)
	maps.Copy(all, e.wanted)
	for name := range all {
		if !same(of(values, name), of(e.wanted, name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// missing says what the script does not give yet.
func (e *editor) missing() string {
	values, err := e.values(e.files)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, name := range e.differ(values) {
		if value, ok := e.wanted[name]; ok {
			list = append(list, strings.Join(Argument{name, value}.words(), " "))
		} else {
			list = append(list, "without "+name)
		}
	}
	return strings.Join(list, ", ")
}

// patch returns what differs.
func (e *editor) patch() *Patch {
	p := &Patch{}
	for _, f := range e.files {
		if slices.Equal(f.old, f.lines) {
			continue
		}
		p.Files = append(p.Files, Input{Label: f.label, Data: []byte(strings.Join(f.lines, ""))})
		text, n := f.difference()
		p.Text += text
		p.Lines += n
	}
	return p
}

// aroundChange is the number of lines that a patch shows before and after a change.
const aroundChange = 3

// difference writes what differs as patch(1) reads it, and counts the lines that were.
func (f edited) difference() (text string, changed int) {
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %[1]s\n", f.label)
	moved := 0 // lines left out so far
	for i := 0; i < len(f.old); {
		if f.old[i] == f.lines[i] {
			i++
			continue
		}
		from, last := max(0, i-aroundChange), i
		for j := i; j < len(f.old) && j <= last+2*aroundChange; j++ {
			if f.old[j] != f.lines[j] {
				last = j
				changed++
			}
		}
		to := min(len(f.old), last+aroundChange+1)
		if to == len(f.old) && f.old[to-1] == "" {
			to-- // after the last line
		}
		kept := 0
		for j := from; j < to; j++ {
			if f.old[j] == f.lines[j] || f.lines[j] != "" {
				kept++
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1-moved, kept)
		moved += to - from - kept
		f.hunk(&b, from, to)
		i = to
	}
	return b.String(), changed
}

// hunk writes some lines: of those that differ the old ones first.
func (f edited) hunk(b *strings.Builder, from, to int) {
	put := func(mark, line string) {
		b.WriteString(mark + strings.TrimSuffix(line, "\n") + "\n")
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\\ No newline at end of file\n")
		}
	}
	for i := from; i < to; {
		if f.old[i] == f.lines[i] {
			put(" ", f.old[i])
			i++
			continue
		}
		end := i
		for end < to && f.old[end] != f.lines[end] {
			put("-", f.old[end])
			end++
		}
		for ; i < end; i++ {
			if f.lines[i] != "" {
				put("+", f.lines[i])
			}
		}
	}
}
