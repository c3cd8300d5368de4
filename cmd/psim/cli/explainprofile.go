package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"psim/internal/files"
	"psim/profiles"
)

// readProfiles reads the traces of --profile, and returns nil without any.
func (f *explainFlags) readProfiles(ctx context.Context, stderr io.Writer) (*profiles.ProfiledStep, error) {
	var names []string
	for _, name := range f.profiles {
		inside, err := tracesIn(name)
		if err != nil {
			return nil, fmt.Errorf("--profile %w", err)
		}
		names = append(names, inside...)
	}
	if len(names) == 0 {
		return nil, nil
	}
	progress := newProgress(stderr, f.quiet)
	defer progress.clear()
	step, err := readTraces(ctx, names, func(i int) { progress.showf("trace %d of %d", i+1, len(names)) })
	if err != nil {
		return nil, fmt.Errorf("--profile %w", err)
	}
	return step, nil
}

// readTraces reads traces of the ranks of a run. progress is called before each.
func readTraces(ctx context.Context, names []string, progress func(int)) (*profiles.ProfiledStep, error) {
	var list []*profiles.RankProfile
	for i, name := range names {
		progress(i)
		p, err := profiles.Read(ctx, name)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	step, err := profiles.Together(list)
	if err != nil {
		return nil, err
	}
	if step.Times.Sum() <= 0 {
		return nil, fmt.Errorf("%s: its step takes no time: the events have no durations", names[0])
	}
	return step, nil
}

// tracesIn returns the traces of a folder, or the name of a file itself.
func tracesIn(name string) ([]string, error) {
	if !files.IsFolder(name) {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, files.Reason(err))
	}
	var inside []string
	for _, e := range entries {
		if !e.IsDir() && (strings.HasSuffix(e.Name(), ".json") || strings.HasSuffix(e.Name(), ".json.gz")) {
			inside = append(inside, filepath.Join(name, e.Name()))
		}
	}
	if len(inside) == 0 {
		return nil, fmt.Errorf("%s: has no traces; they end in .json or .json.gz", name)
	}
	slices.Sort(inside)
	return inside, nil
}
