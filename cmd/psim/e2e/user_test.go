package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A user has a folder in which psim runs.
type user struct {
	folder      string
	environment []string // in addition to that of the tests
}

// newUser returns a user whose folder has the repository's configs and a file of their own,
// as the examples in the manual assume.
func newUser(t *testing.T) user {
	t.Helper()
	u := user{folder: t.TempDir()}
	require.NoError(t, os.Symlink(filepath.Join(root(t), "configs"), u.path("configs")))
	mine, err := os.ReadFile(filepath.Join(root(t), "configs", "gpipe.toml"))
	require.NoError(t, err)
	u.write(t, "my.toml", string(mine))
	return u
}

// root returns the repository's folder.
func root(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs("../../..")
	require.NoError(t, err)
	return folder
}

// psim runs a command line in the user's folder, and returns what it prints.
func (u user) psim(t *testing.T, line string) (stdout, stderr string, code int) {
	t.Helper()
	fields := strings.Fields(line)
	require.Equal(t, "psim", fields[0])
	var out, said bytes.Buffer
	cmd := u.command(t, fields[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	require.NotNil(t, cmd.ProcessState, err)
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// command makes a process of psim that ends with the test.
func (u user) command(t *testing.T, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program, arguments...)
	cmd.Dir, cmd.WaitDelay = u.folder, 10*time.Second
	cmd.Env = append(os.Environ(), u.environment...)
	return cmd
}

// path returns the path of a file in the user's folder.
func (u user) path(name string) string { return filepath.Join(u.folder, name) }

func (u user) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(u.path(name)), 0o755))
	require.NoError(t, os.WriteFile(u.path(name), []byte(text), 0o644))
}

func (u user) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(u.path(name))
	require.NoError(t, err)
	return string(data)
}

// contents reads the files of a folder, by their paths in it, without psim's own record of them.
func (u user) contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path, text := range u.tree(t, folder) {
		if text == aFolder || filepath.Base(path) == ".psim.json" {
			continue
		}
		name, err := filepath.Rel(folder, path)
		require.NoError(t, err)
		files[name] = text
	}
	return files
}

// aFolder stands for the content of a folder.
const aFolder = "a folder"

// tree returns the content of all files below a folder, and aFolder for folders, by their paths in
// the user's folder. It leaves out links.
func (u user) tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(u.path(folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type() == fs.ModeSymlink {
			return err
		}
		name, err := filepath.Rel(u.folder, path)
		if err != nil || entry.IsDir() {
			all[name] = aFolder
			return err
		}
		data, err := os.ReadFile(path)
		all[name] = string(data)
		return err
	}))
	return all
}

// autoTimes returns a configuration with schedule.name = "auto".
func autoTimes(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../cli/testdata/auto.toml")
	require.NoError(t, err)
	return string(data)
}
