// Command lines goes through all lines of the courses' assignments (lines.toml): it runs the
// command of every line that psim does, in an empty folder each, checks what the command makes or
// prints, and counts. With -table it prints the table of docs/courses.md.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"image/png"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
)

//go:embed lines.toml
var data string

// A line is a sentence of an assignment.
type line struct {
	Number  string   `toml:"number"`
	Asks    string   `toml:"asks"`
	Command string   `toml:"command"`  // what does it, for a shell; psim is on the path
	Makes   []string `toml:"makes"`    // files that the command makes
	Prints  string   `toml:"prints"`   // text that it prints
	LeftOut string   `toml:"left_out"` // why psim leaves it out, instead of a command
}

// limit ends a command that hangs.
const limit = 5 * time.Minute

func main() {
	table := flag.Bool("table", false, "print the table of docs/courses.md and run nothing")
	only := flag.String("only", "", "run only these lines, such as 8,12,A3")
	own := flag.Bool("psim", false, "run only commands of psim, and not tests and builds")
	flag.Parse()
	lines, err := parse(data)
	switch {
	case err != nil:
		log.Fatal(err)
	case *table:
		fmt.Print(markdown(lines))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *own {
		lines = slices.DeleteFunc(lines, func(l line) bool { return l.elsewhere() && l.LeftOut == "" })
	}
	if err := check(ctx, lines, *only); err != nil {
		log.Fatal(err)
	}
}

// parse reads the lines. A line is either done, with a command and what it checks, or left out.
func parse(data string) ([]line, error) {
	var file struct {
		Line []line `toml:"line"`
	}
	meta, err := toml.Decode(data, &file)
	if err != nil {
		return nil, err
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("lines.toml: unknown key %s", unknown[0])
	}
	seen := map[string]bool{}
	for _, l := range file.Line {
		done := l.Command != "" && (len(l.Makes) > 0 || l.Prints != "")
		switch {
		case l.Number == "" || l.Asks == "" || seen[l.Number]:
			return nil, fmt.Errorf("lines.toml: line %q needs a number of its own, and what it asks for", l.Number)
		case done == (l.LeftOut != ""):
			return nil, fmt.Errorf("lines.toml: line %s needs a command with makes or prints, or left_out", l.Number)
		}
		seen[l.Number] = true
	}
	return file.Line, nil
}

// markdown writes the lines as a table.
func markdown(lines []line) string {
	var b strings.Builder
	b.WriteString("| line | asks | command | checked |\n|---|---|---|---|\n")
	for _, l := range lines {
		command, checked := "", "left out: "+l.LeftOut
		if l.LeftOut == "" {
			command, checked = "`"+strings.ReplaceAll(l.Command, "|", "\\|")+"`", "prints “"+l.Prints+"”"
			if len(l.Makes) > 0 {
				checked = strings.Join(l.Makes, ", ")
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.Number, l.Asks, command, checked)
	}
	return b.String()
}

// check runs the lines, as many at once as there are cores, and reports what fails.
func check(ctx context.Context, lines []line, only string) error {
	bin, err := build(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	var (
		group        sync.WaitGroup
		printing     sync.Mutex
		done, failed int
		out          []string
	)
	free := make(chan struct{}, runtime.NumCPU())
	for _, l := range lines {
		if only != "" && !strings.Contains(","+only+",", ","+l.Number+",") {
			continue
		}
		if l.LeftOut != "" {
			out = append(out, l.Number)
			continue
		}
		free <- struct{}{}
		group.Go(func() {
			start := time.Now()
			problem := l.run(ctx, bin)
			<-free
			printing.Lock()
			defer printing.Unlock()
			if problem != nil {
				failed++
				fmt.Printf("%-4s FAILED %s\n     %s\n     %v\n", l.Number, l.Asks, l.Command, problem)
				return
			}
			done++
			fmt.Printf("%-4s done   %s (%.1f s)\n", l.Number, l.Asks, time.Since(start).Seconds())
		})
	}
	group.Wait()
	fmt.Printf("%d done, %d left out: %s\n", done, len(out), strings.Join(out, ", "))
	if failed > 0 {
		return fmt.Errorf("%d failed", failed)
	}
	return ctx.Err()
}

// build compiles psim into a folder of its own.
func build(ctx context.Context) (folder string, err error) {
	if folder, err = os.MkdirTemp("", "psim-lines-"); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(folder, "psim"), "./cmd/psim")
	command.Stderr = os.Stderr
	return folder, command.Run()
}

// run runs the command of a line in an empty folder, tests in this one, and checks what it made.
func (l line) run(ctx context.Context, bin string) error {
	folder, err := os.MkdirTemp("", "psim-line-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", l.Command)
	command.WaitDelay = time.Second
	if !l.elsewhere() {
		command.Dir = folder
	}
	command.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return fmt.Errorf("%w: %s%s", err, stderr.Bytes(), stdout)
	}
	if !strings.Contains(string(stdout), l.Prints) {
		return fmt.Errorf("does not print %q, but: %s", l.Prints, stdout)
	}
	for _, name := range l.Makes {
		if err := good(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere reports whether a line is a test or a build, which run in this folder.
func (l line) elsewhere() bool {
	return strings.HasPrefix(l.Command, "go ") || strings.HasPrefix(l.Command, "make ")
}

// good reports a file that is missing or empty, or a picture that cannot be read.
func good(path string) error {
	content, err := os.ReadFile(path)
	switch {
	case err != nil:
		return err
	case len(content) == 0:
		return fmt.Errorf("%s is empty", filepath.Base(path))
	case filepath.Ext(path) == ".png":
		_, err = png.Decode(bytes.NewReader(content))
	}
	return err
}
