package files_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
)

// ofVersions names the files that version lists.
var ofVersions = []string{"a.txt", "in/b.txt", "result.json", "even.txt"}

// version lists the files of one of many runs: all say which.
func version(n int) []files.File {
	list := []files.File{text("a.txt", strconv.Itoa(n)), text("in/b.txt", strconv.Itoa(n)), text("result.json", strconv.Itoa(n))}
	if n%2 == 0 {
		list = append(list, text("even.txt", strconv.Itoa(n)))
	}
	return list
}

// TestWriter is no test: TestKilled starts it as a process to be killed.
func TestWriter(t *testing.T) {
	folder := os.Getenv("PSIM_TEST_FOLDER")
	if folder == "" {
		t.Skip("for TestKilled")
	}
	fmt.Println("ready")
	for n := os.Getpid() * 1000; ; n++ {
		if err := (files.Folder{Path: folder, Owner: "run", Writes: ofVersions}).Write(context.Background(), version(n)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
}

// Two processes that write into one folder and are killed at any moment leave one
// whole result, and what is somebody else's; the next run leaves nothing of theirs.
// PSIM_KILLS says how often.
func TestKilled(t *testing.T) {
	kills := 8
	if n, err := strconv.Atoi(os.Getenv("PSIM_KILLS")); err == nil {
		kills = n
	}
	random := rand.New(rand.NewPCG(1, 2))
	parent := t.TempDir()
	folder := filepath.Join(parent, "out")
	f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions}
	require.NoError(t, f.Write(context.Background(), version(0)))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.txt"), []byte("mine"), 0o644))
	for range kills {
		writers := []*exec.Cmd{writer(t, folder), writer(t, folder)}
		for _, w := range writers {
			time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
			require.NoError(t, w.Process.Kill())
			require.ErrorContains(t, w.Wait(), "killed")
		}
		requireWhole(t, folder)
		require.NoError(t, f.Write(context.Background(), version(1)))
		requireWhole(t, folder)
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}

// writer starts a process that writes one version after the other.
func writer(t *testing.T, folder string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriter$")
	cmd.Env = append(os.Environ(), "PSIM_TEST_FOLDER="+folder)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return cmd
}

// requireWhole checks that all files are of one version for a reader, and the user's is there.
func requireWhole(t *testing.T, folder string) {
	t.Helper()
	_, err := files.Steady(folder, func() (int, error) {
		return 0, files.Verify(folder, "result.json", "a.txt", "in/b.txt", "even.txt")
	})
	require.NoError(t, err)
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		return string(data)
	}
	n, err := strconv.Atoi(read("result.json"))
	require.NoError(t, err)
	want := map[string]bool{files.Manifest: true, "mine.txt": true, "in": true}
	for _, file := range version(n) {
		var content strings.Builder
		require.NoError(t, file.Render(&content))
		require.Equal(t, content.String(), read(file.Path))
		require.NoError(t, files.Verify(folder, file.Path))
		first, _, _ := strings.Cut(file.Path, "/")
		want[first] = true
	}
	require.Equal(t, "mine", read("mine.txt"))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, len(want))
}

// Where a folder cannot be swapped its files are replaced one by one, and a reader
// tells those of two runs apart.
func TestTorn(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	f := files.Folder{Path: ".", Owner: "run", Writes: ofVersions}
	require.NoError(t, f.Write(context.Background(), version(2)))
	require.NoError(t, os.WriteFile("mine.txt", []byte("mine"), 0o644))
	require.NoError(t, f.Write(context.Background(), version(3)))
	requireWhole(t, folder)
	require.NoFileExists(t, "even.txt")
	require.NoError(t, os.WriteFile("a.txt", []byte("2"), 0o644))
	require.ErrorContains(t, files.Verify(".", "result.json", "a.txt"), ".: a.txt is not the one that psim wrote with the other files there")
	require.NoError(t, os.WriteFile("in/b.txt", []byte("2"), 0o644))
	require.Error(t, files.Verify("in", "b.txt"))
}

// The files of two commands do not replace each other's, and what is of a finished
// run is not replaced by a part.
func TestOwners(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "o")
	ctx := context.Background()
	run := files.Folder{Path: folder, Owner: "run", Writes: ofVersions}
	require.Equal(t, folder, run.Aside().Path)
	require.NoError(t, run.Aside().Write(ctx, version(1)))
	require.Equal(t, folder, run.Aside().Path, "a part may replace a part")
	require.NoError(t, run.Write(ctx, version(1)))
	require.Equal(t, folder+".partial", run.Aside().Path)
	other := files.Folder{Path: folder, Owner: "compare", Writes: ofVersions}
	require.ErrorContains(t, other.Write(ctx, version(2)), "a.txt is of psim run; name another folder")
	require.NoError(t, other.Write(ctx, []files.File{text("c.txt", "c")}))
	require.NoError(t, run.Write(ctx, version(2)))
	require.FileExists(t, filepath.Join(folder, "c.txt"))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.txt"), nil, 0o644))
	require.ErrorContains(t, run.Write(ctx, []files.File{text("mine.txt", "new")}), "mine.txt was not written by psim")
}

// Modes of files and folders are as the umask says, and those of a folder stay.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	folder := filepath.Join(t.TempDir(), "o")
	f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions}
	require.NoError(t, f.Write(context.Background(), version(1), text(filepath.Join(folder, "t.json"), "")))
	for name, mode := range map[string]os.FileMode{".": 0o750, "in": 0o750, "a.txt": 0o640, "t.json": 0o640} {
		info, err := os.Stat(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	require.NoError(t, os.Chmod(folder, 0o700))
	require.NoError(t, f.Write(context.Background(), version(2)))
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.FileExists(t, filepath.Join(folder, "t.json"))
}
