// Package patches changes files of a user's as little as possible: flags and variables in scripts of bash, values in
// JSON and YAML. What is changed is tried, and kept where the files, read once more, come nearer to what is wanted.
package patches

import (
	"fmt"
	"slices"
	"strings"

	"psim/launch/understood"
)

// A Patch is what to change in a user's files, so that they start another plan.
type Patch struct {
	Text  string             // as patch(1) reads it
	Lines int                // that differ
	Files []understood.Input // those that differ, whole
}

// An Edited file has its lines as they were and as they are; a line that is left out is empty, and one may have new
// lines before it.
type Edited struct {
	Label      string
	old, lines []string
}

// Bytes returns the file as it is now.
func (f Edited) Bytes() []byte { return []byte(strings.Join(f.lines, "")) }

// most limits the bytes of files that are changed, which are read again for every change that is tried, and mostTried
// how many are tried before one is kept.
const (
	most       = 64 << 10
	mostTried  = 200
	mostPlaces = 10 // of a flag, or of a variable
)

// An Editor changes files.
type Editor struct {
	Files []Edited
}

// Open returns an editor of files.
func Open(files []understood.Input) (*Editor, error) {
	e, size := &Editor{}, 0
	for _, f := range files {
		lines := strings.SplitAfter(string(f.Data), "\n")
		e.Files = append(e.Files, Edited{Label: f.Label, old: lines, lines: lines})
		size += len(f.Data)
	}
	if size > most {
		return nil, fmt.Errorf("%s: has %d kB; psim changes scripts of at most %d kB", files[0].Label, size>>10,
			most>>10)
	}
	return e, nil
}

// Inputs returns files as a reader takes them.
func Inputs(files []Edited) []understood.Input {
	inputs := make([]understood.Input, len(files))
	for i, f := range files {
		inputs[i] = understood.Input{Label: f.Label, Data: f.Bytes()}
	}
	return inputs
}

// Climb keeps of the candidates the one after which the fewest names differ, until none do. It returns the names that
// no candidate brings nearer.
func (e *Editor) Climb(
	differ func([]understood.Input) ([]string, error), candidates func(names []string) [][]Edited,
) ([]string, error) {
	left, err := differ(Inputs(e.Files))
	if err != nil {
		return nil, err
	}
	for len(left) > 0 {
		nearest := left
		var best []Edited
		tried := candidates(left)
		for _, next := range tried[:min(mostTried, len(tried))] {
			names, err := differ(Inputs(next))
			if err != nil {
				continue // the change breaks the files
			}
			if len(names) < len(nearest) {
				nearest, best = names, next
			}
		}
		if best == nil {
			return left, nil
		}
		e.Files, left = best, nearest
	}
	return nil, nil
}

// Patch returns what differs.
func (e *Editor) Patch() *Patch {
	p := &Patch{}
	for _, f := range e.Files {
		if slices.Equal(f.old, f.lines) {
			continue
		}
		p.Files = append(p.Files, understood.Input{Label: f.Label, Data: f.Bytes()})
		text, n := f.difference()
		p.Text += text
		p.Lines += n
	}
	return p
}

// around is the number of lines that a patch shows before and after a change.
const around = 3

// difference writes what differs as patch(1) reads it, and counts the lines that are other ones or new.
func (f Edited) difference() (text string, changed int) {
	var b strings.Builder
	name := f.Label
	if strings.Contains(name, " ") {
		name += "\t" // where patch(1) ends the name
	}
	fmt.Fprintf(&b, "--- %s\n+++ %[1]s\n", name)
	moved := 0 // lines put in so far
	for i := 0; i < len(f.old); {
		if f.old[i] == f.lines[i] {
			i++
			continue
		}
		from, last := max(0, i-around), i
		for j := i; j < len(f.old) && j <= last+2*around; j++ {
			if f.old[j] != f.lines[j] {
				last = j
				changed += len(pieces(f.lines[j]))
				if f.lines[j] == "" {
					changed++
				}
				if strings.HasSuffix(f.lines[j], f.old[j]) {
					changed-- // which is still there
				}
			}
		}
		to := min(len(f.old), last+around+1)
		if to == len(f.old) && f.old[to-1] == "" {
			to-- // after the last line
		}
		now := 0
		for j := from; j < to; j++ {
			now += len(pieces(f.lines[j]))
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1+moved, now)
		moved += now - (to - from)
		f.hunk(&b, from, to)
		i = to
	}
	return b.String(), changed
}

// pieces divides the text of a line that was into lines.
func pieces(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

// hunk writes some lines: of those that differ the old ones first.
func (f Edited) hunk(b *strings.Builder, from, to int) {
	put := func(mark, text string) {
		for _, line := range pieces(text) {
			b.WriteString(mark + strings.TrimSuffix(line, "\n") + "\n")
			if !strings.HasSuffix(line, "\n") {
				b.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	for i := from; i < to; {
		if before, same := strings.CutSuffix(f.lines[i], f.old[i]); same && f.old[i] != "" {
			put("+", before)
			put(" ", f.old[i])
			i++
			continue
		}
		end := i
		for end < to && !strings.HasSuffix(f.lines[end], f.old[end]) {
			put("-", f.old[end])
			end++
		}
		for ; i < end; i++ {
			put("+", f.lines[i])
		}
	}
}
