package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A disk is a small file system in memory, in a folder.
type disk struct {
	folder        string
	pages, inodes int // free for a command
}

const page = 4 << 10

// fill mounts the disk, copies a folder's files onto it, and leaves its pages and inodes free.
func (d disk) fill(t *testing.T, from string) {
	t.Helper()
	require.NoError(t, syscall.Mount("none", d.folder, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { syscall.Unmount(d.folder, 0) })
	require.NoError(t, os.CopyFS(d.folder, os.DirFS(from)))
	var now syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.folder, &now))
	pages := int(now.Blocks-now.Bfree) + d.pages
	d.remount(t, fmt.Sprintf("size=%d,nr_inodes=%d", max(1, pages)*page, int(now.Files-now.Ffree)+d.inodes)) // 0 is no limit
}

// remount gives the disk another size.
func (d disk) remount(t *testing.T, options string) {
	t.Helper()
	require.NoError(t, syscall.Mount("none", d.folder, "", syscall.MS_REMOUNT, options))
}

// A fullDisk is a command that writes onto a full disk.
type fullDisk struct {
	name, before, command string
	timed                 bool // whether its output differs from run to run
	quick                 bool // whether every run of the tests tries it
	keeps                 bool // whether it keeps points for a later sweep, or refuses to begin
}

// fullDisks are commands that write into an empty folder, or over the files of an earlier run. The
// disk is in d; the folder d itself cannot be swapped.
var fullDisks = []fullDisk{
	{name: "run", command: "psim run gpipe --out d/o"},
	{name: "run again", quick: true, before: "psim run 1f1b --out d/o", command: "psim run gpipe --out d/o"},
	{name: "run in place", before: "psim run 1f1b --out d", command: "psim run gpipe --out d"},
	{name: "run with a trace", before: "psim run 1f1b --out d/o", command: "psim run gpipe --quiet --out o --trace d/t.json"},
	{name: "compare", quick: true, before: "psim run 1f1b --out d/o", command: "psim compare a b --out d/o"},
	{name: "search", before: "psim search auto.toml --set schedule.stages=3 --out d/o", command: "psim search auto.toml --out d/o"},
	{name: "sweep", keeps: true, command: "psim sweep gpipe --quiet --vary schedule.microbatches=4,8 --out d/o"},
	{name: "sweep again", keeps: true, before: "psim sweep 1f1b --quiet --vary schedule.microbatches=8 --out d/o", command: "psim sweep gpipe --quiet --vary schedule.microbatches=4,8 --out d/o"},
	{name: "plot", before: "psim plot timeline a --out d/p.png", command: "psim plot timeline b --out d/p.png"},
	{name: "exec", timed: true, command: "psim exec mlp.toml --quiet --steps 1 --warmup 0 --repeats 1 --out d/o" + untimed},
	{name: "exec again", timed: true, before: "psim exec mlp.toml --quiet --steps 2 --out d/o" + untimed, command: "psim exec mlp.toml --quiet --steps 1 --warmup 0 --repeats 1 --out d/o" + untimed},
}

// If the disk fills at any write, a command prints its results and one line of warning, ends with exit
// code 1, and leaves the files on the disk as they were. The disk grows by a page, and then by a
// file, until the command succeeds. PSIM_FULL_DISK asks for every command and size; without it there
// are a few.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getenv("PSIM_TEST_NAMESPACE") == "" {
		inNamespace(t)
		return
	}
	u := mlpUser(t)
	u.write(t, "auto.toml", autoTimes(t))
	require.NoError(t, os.Mkdir(u.path("d"), 0o755))
	for _, line := range []string{"psim run gpipe --out a", "psim run 1f1b --out b"} {
		_, stderr, code := u.psim(t, line)
		require.Zero(t, code, stderr)
	}
	for _, c := range fullDisks {
		if c.quick || os.Getenv("PSIM_FULL_DISK") != "" {
			t.Run(c.name, func(t *testing.T) { c.grow(t, u) })
		}
	}
}

// inNamespace runs the test as a process that may mount.
func inNamespace(t *testing.T) {
	cmd := exec.Command(program, "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "PSIM_TEST_NAMESPACE=1", asPsim+"=") // to test, not to run psim
	own := []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	groups := []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: own, GidMappings: groups,
		Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skip("no file system can be mounted here: ", err)
	}
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), " disks too small for it, ")
}

// grow runs the command on disks of growing size.
func (c fullDisk) grow(t *testing.T, u user) {
	template := t.TempDir()
	if c.before != "" {
		_, stderr, code := u.psim(t, c.before)
		require.Zero(t, code, stderr)
		require.NoError(t, os.CopyFS(template, os.DirFS(u.path("d"))))
		require.NoError(t, os.RemoveAll(u.path("d")))
		require.NoError(t, os.Mkdir(u.path("d"), 0o755))
	}
	const plenty = 4096
	for _, d := range []disk{{pages: 1, inodes: 0}, {pages: 0, inodes: 1}} {
		failed, step := 0, 1
		for n := 0; ; n += step {
			now := disk{u.path("d"), d.pages*n + d.inodes*plenty, d.inodes*n + d.pages*plenty}
			now.fill(t, template)
			if done := c.try(t, u, now); done {
				break
			}
			require.NoError(t, syscall.Unmount(u.path("d"), 0))
			if failed++; os.Getenv("PSIM_FULL_DISK") == "" {
				step *= 5
			}
		}
		require.NoError(t, syscall.Unmount(u.path("d"), 0))
		t.Logf("%s: %d disks too small for it, by %d pages and %d files", c.name, failed, d.pages, d.inodes)
		require.Positive(t, failed)
	}
}

// try runs the command on a disk, and reports whether it succeeded.
func (c fullDisk) try(t *testing.T, u user, d disk) bool {
	before := u.tree(t, "d")
	stdout, stderr, code := u.psim(t, c.command)
	if code == exitDone {
		return true
	}
	require.Equal(t, exitFailed, code, stderr)
	require.True(t, strings.HasPrefix(stderr, "psim: ") && strings.HasSuffix(stderr, ": no space left on device\n"), stderr)
	require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
	after := u.tree(t, "d")
	if journal := filepath.Join("d", "o", "sweep.journal"); c.keeps && after[journal] != "" {
		delete(after, journal)
		before[filepath.Dir(journal)] = aFolder
	}
	require.Equal(t, before, after, "what was there stays, and no more")
	d.remount(t, "size=64m,nr_inodes=0")
	again, stderr, code := u.psim(t, c.command)
	require.Zero(t, code, stderr)
	for name := range u.tree(t, "d") {
		require.False(t, strings.Contains(name, ".psim-"), name)
	}
	if c.keeps && stdout == "" {
		return false
	}
	if c.timed {
		require.Equal(t, strings.Count(again, "\n"), strings.Count(stdout, "\n"))
	} else {
		require.Equal(t, again, stdout)
	}
	return false
}
