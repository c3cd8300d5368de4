package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that is killed before its manifest is in place has changed nothing, and one that is killed later
// is finished by the next reader or run, after any number of moves.
func TestKilledAtEveryMove(t *testing.T) {
	write := func(t *testing.T, folder, text string, names ...string) {
		var list []File
		for _, name := range names {
			list = append(list, File{name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }})
		}
		require.NoError(t, Folder{Path: folder, Owner: "run", Writes: []string{"a", "c", "stale"}}.Write(t.Context(), list))
	}
	const last = 4 // moves
	for step := -2; step <= last; step++ {
		for _, first := range []string{"writes", "reads", "checks"} {
			folder := filepath.Join(t.TempDir(), "o")
			write(t, folder, "old", "a", "b/c", "stale", "result.json")
			p, err := openPlace(folder)
			require.NoError(t, err)
			m, err := p.manifest()
			require.NoError(t, err)
			now := plan{Moves: []move{{"stale", hash([]byte("old")), nothing}}}
			files, data := map[string]string{}, map[string]*content{}
			for _, name := range []string{"a", "b/c", "result.json"} {
				data[name] = newContent(t.Context(), name, true)
				io.WriteString(data[name], "new")
				files[name] = data[name].sum()
				now.Moves = append(now.Moves, move{name, hash([]byte("old")), files[name]})
			}
			m.Sets["run"] = fileSet{Files: files}
			want := "old"
			kill(t, &p, m, now, data, step)
			if step >= 0 {
				want = "new"
			}
			if first == "checks" {
				guarded := []string{"a", "b/c", "stale", "result.json"}
				require.NoError(t, Folder{Path: folder, Owner: "run", Guarded: guarded}.Check(), step)
				require.NoDirExists(t, filepath.Join(folder, staging))
			}
			if first == "reads" {
				got, err := Steady(folder, func() (string, error) {
					text, err := os.ReadFile(filepath.Join(folder, "result.json"))
					return string(text), errors.Join(err, Verify(folder, "result.json", "a", "b/c"))
				})
				require.NoError(t, err)
				require.Equal(t, want, got, step)
				_, err = os.Stat(filepath.Join(folder, "stale"))
				require.Equal(t, want == "old", err == nil)
			}
			write(t, folder, "newer", "a", "result.json")
			require.NoError(t, Verify(folder, "result.json", "a"))
			entries, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Len(t, entries, 3, "a, result.json and the manifest")
		}
	}
}

// kill carries a plan out up to a step: -2 without the plan, -1 without the manifest.
func kill(t *testing.T, p *place, m manifest, now plan, data map[string]*content, step int) {
	defer p.Close()
	text, err := m.text()
	require.NoError(t, err)
	now.Manifest = hash(text)
	if step == -2 {
		require.NoError(t, p.save(planFile, []byte("{")))
		return
	}
	_, err = p.stage(now, data)
	require.NoError(t, err)
	require.NoError(t, p.save(staging+"/"+Manifest, text))
	if step < 0 {
		return
	}
	require.NoError(t, p.Rename(staging+"/"+Manifest, Manifest))
	for _, m := range now.Moves[:step] {
		require.NoError(t, p.move(m))
	}
}

// A folder of the user's with the name of the staging folder is neither used nor removed.
func TestForeignStaging(t *testing.T) {
	list := []File{{"a", func(w io.Writer) error { _, err := io.WriteString(w, "a"); return err }}}
	for _, theirs := range []string{"notes.txt", "in/notes.txt", ".psim-plan.json", "a", Manifest} {
		folder := filepath.Join(t.TempDir(), "o")
		f := Folder{Path: folder, Owner: "run", Guarded: []string{"a"}, Overwrite: true}
		require.NoError(t, f.Write(t.Context(), list))
		name := filepath.Join(folder, staging, theirs)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("mine"), 0o644))
		_, err := Steady(folder, func() (int, error) { return 0, nil })
		require.NoError(t, err)
		want := folder + ": .psim-new was not made by psim in this folder; move it away, or name another folder"
		require.EqualError(t, f.Check(), want)
		require.EqualError(t, f.Write(t.Context(), list), want)
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "mine", string(text))
	}
	for _, make := range []func(name string) error{
		func(name string) error { return os.WriteFile(name, nil, 0o644) },
		func(name string) error { return os.Symlink("elsewhere", name) },
	} {
		f := Folder{Path: t.TempDir(), Owner: "run"}
		name := filepath.Join(f.Path, staging)
		require.NoError(t, make(name))
		require.ErrorContains(t, f.Check(), ".psim-new was not made by psim")
		require.ErrorContains(t, f.Write(t.Context(), list), ".psim-new was not made by psim")
		_, err := os.Lstat(name)
		require.NoError(t, err)
	}
}
