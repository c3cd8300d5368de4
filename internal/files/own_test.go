package files_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/files"
)

// Whatever commands write into a folder, and whatever a user does there in between, what the user wrote
// stays as it is, unless he says --overwrite; and the files of a run that succeeded belong together.
func TestUsersBytesStay(t *testing.T) {
	names := []string{"a.txt", "b.txt", "in/c.txt", "in/d.txt"}
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "own")
		require.NoError(t, err)
		defer os.RemoveAll(folder)
		users := map[string]string{}
		word := rapid.SampledFrom([]string{"1", "2", "3"})
		for range rapid.IntRange(2, 9).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				users[name] = "mine " + word.Draw(t, "text")
				require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(users[name]), 0o644))
			case 1:
				os.Remove(filepath.Join(folder, name))
				delete(users, name)
			default:
				runAmong(t, folder, names, users)
			}
			for name, text := range users {
				data, err := os.ReadFile(filepath.Join(folder, name))
				require.NoError(t, err)
				require.Equal(t, text, string(data), name)
			}
		}
	})
}

// runAmong writes some of the names, and drops those of the user that it may replace.
func runAmong(t *rapid.T, folder string, names []string, users map[string]string) {
	f := files.Folder{Path: folder, Owner: rapid.SampledFrom([]string{"run", "exec"}).Draw(t, "owner"), Writes: names}
	f.Overwrite = rapid.IntRange(0, 4).Draw(t, "overwrite") == 0
	var list []files.File
	for _, name := range names {
		if rapid.Bool().Draw(t, name) {
			n := rapid.IntRange(1, 3).Draw(t, "text")
			list, f.Guarded = append(list, text(name, fmt.Sprint(n))), append(f.Guarded, name)
		}
	}
	checked := f.Check()
	if err := f.Write(context.Background(), list); err != nil {
		require.Error(t, checked, "refused before the work")
	}
	if checked != nil { // files that already have the bytes are refused before, and not afterwards
		return
	}
	require.NoError(t, files.Verify(folder, f.Guarded...))
	for _, name := range f.Guarded {
		require.True(t, f.Overwrite || users[name] == "")
		delete(users, name)
	}
}

// A manifest that somebody else wrote does not make files psim's, and a link in the folder is not followed.
func TestForeignManifest(t *testing.T) {
	parent := t.TempDir()
	folder, victim := filepath.Join(parent, "folder"), filepath.Join(parent, "victim")
	mine := map[string]string{filepath.Join(folder, "mine.txt"): "mine", filepath.Join(victim, "notes.txt"): "2"}
	require.NoError(t, os.Mkdir(folder, 0o755))
	require.NoError(t, os.Mkdir(victim, 0o755))
	for path, text := range mine {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink("../victim", filepath.Join(folder, "in")))
	const sum = "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35" // of 2
	ofMine := fmt.Sprintf("%x", sha256.Sum256([]byte("mine")))                     // known to who made the manifest
	manifest := `{"sets":{"run":{"files":{"in/notes.txt":"` + sum + `","in/b.txt":"","mine.txt":"` + ofMine + `"}}}}`
	require.NoError(t, os.WriteFile(filepath.Join(folder, files.Manifest), []byte(manifest), 0o644))

	f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions, Overwrite: true}
	require.NoError(t, f.Write(context.Background(), version(1)[:1]))
	require.ErrorContains(t, f.Write(context.Background(), version(1)), "in/b.txt is below a link or a file")
	for path, text := range mine {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}

	require.NoError(t, os.Remove(filepath.Join(folder, "in")))
	require.NoError(t, os.Symlink("../victim/notes.txt", filepath.Join(folder, "result.json")))
	require.ErrorContains(t, f.Write(context.Background(), version(2)), "result.json is not a regular file")
	data, err := os.ReadFile(filepath.Join(victim, "notes.txt"))
	require.NoError(t, err)
	require.Equal(t, "2", string(data))
}

// A plan that came with a folder is not carried out, whoever knows the bytes that the folder will have: not by
// a command that writes into it, and not by one that reads it.
func TestForgedPlan(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	const manifest = `{"sets":{"run":{"files":{}}}}`
	write("mine.txt", "mine")
	write("notes.txt", "notes")
	write(files.Manifest, manifest)
	write(".psim-new/notes.txt", "theirs")
	for _, inode := range []string{"", `"inode":0,`, `"inode":12345,`} {
		write(".psim-new/.psim-plan.json", `{"manifest":"`+sum(manifest)+`",`+inode+`"moves":[{"name":"mine.txt","old":"`+
			sum("mine")+`","new":""},{"name":"notes.txt","old":"`+sum("notes")+`","new":"`+sum("theirs")+`"}]}`)
		f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions, Overwrite: true}
		const want = ".psim-new was not made by psim in this folder; move it away, or name another folder"
		require.ErrorContains(t, f.Check(), want)
		require.ErrorContains(t, f.Write(t.Context(), version(1)), want)
		_, err := files.Steady(folder, func() (string, error) { return "", os.ErrInvalid })
		require.ErrorIs(t, err, os.ErrInvalid)
		for name, text := range map[string]string{"mine.txt": "mine", "notes.txt": "notes"} {
			data, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			require.Equal(t, text, string(data))
		}
	}
}

// A file that was changed stays, is told apart from those of the run, and is named before the work.
func TestEdited(t *testing.T) {
	folder := t.TempDir()
	ctx, f := context.Background(), files.Folder{Path: folder, Owner: "run", Writes: ofVersions, Guarded: []string{"a.txt", "even.txt"}}
	require.NoError(t, f.Write(ctx, version(2)))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "even.txt"), []byte("my analysis"), 0o644))
	require.EqualError(t, f.Check(), folder+": even.txt was changed since psim wrote it; name another folder, or replace it with --overwrite")
	f.Overwrite = true
	require.NoError(t, f.Check())
	require.NoError(t, f.Write(ctx, version(3)), "which has no even.txt")
	require.FileExists(t, filepath.Join(folder, "even.txt"), "nothing is removed that psim did not write")
	require.NoError(t, files.Verify(folder, "result.json", "a.txt"))
	require.ErrorContains(t, files.Verify(folder, "result.json", "even.txt"), "even.txt is not the one that psim wrote")
	require.NoError(t, f.Write(ctx, version(4)))
	require.NoError(t, files.Verify(folder, "result.json", "even.txt"))
}

// The root folder and the home folder are refused, by whatever name; folders in them are not.
func TestDistinct(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(home)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(home, link))
	require.NoError(t, os.Mkdir("in", 0o755))
	for path, kind := range map[string]string{
		"/": "the root folder", "/.": "the root folder", "/usr/..": "the root folder", home: "your home folder",
		home + "/.": "your home folder", ".": "your home folder", "in/..": "your home folder", link: "your home folder",
	} {
		f := files.Folder{Path: path, Owner: "run", Writes: ofVersions}
		for _, err := range []error{f.Check(), f.Write(context.Background(), version(1))} {
			require.ErrorContains(t, err, path+": is "+kind+"; name a folder in it, such as ")
		}
	}
	entries, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, files.Folder{Path: "in", Owner: "run", Writes: ofVersions}.Write(context.Background(), version(1)))
	require.NoError(t, files.Folder{Path: ".", Owner: "plot", Named: true}.Write(context.Background(), []files.File{text("p.png", "")}))
	require.NoError(t, files.Folder{Path: filepath.Join(link, "new"), Owner: "run", Writes: ofVersions}.Check())
}
