package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// zeroTimeMemory is a configuration that uses memory but no time, so that no picture can be drawn.
const zeroTimeMemory = "testdata/zero-time-memory.toml"

// A second run leaves files that no run has written: a comparison, and the user's files.
func TestRunAgain(t *testing.T) {
	userFolder(t)
	for _, line := range []string{"psim run gpipe", "psim run gpipe --set schedule.name=1f1b --out b", "psim compare out/gpipe b --out out/gpipe"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	require.NoError(t, os.WriteFile("out/gpipe/modes.png", []byte("mine"), 0o644))
	require.NoError(t, os.Mkdir("out/gpipe/predicted", 0o755))
	require.NoError(t, os.WriteFile("out/gpipe/predicted/trace2.csv", []byte("mine"), 0o644))
	before := contents(t, "out/gpipe")
	_, stderr, code := psim(t, "psim run gpipe")
	require.Zero(t, code, stderr)
	require.Equal(t, before, contents(t, "out/gpipe"))
}

// psim plot memory draws memory.png of a saved run again, with the same words for a title; without its
// trace, too.
func TestMemoryAgain(t *testing.T) {
	userFolder(t)
	for _, line := range []string{"psim run gpipe --out o", "psim plot memory o --out again.png"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	again, err := os.ReadFile("again.png")
	require.NoError(t, err)
	require.Equal(t, contents(t, "o")["memory.png"], string(again))
	require.NoError(t, os.Remove("o/trace.csv"))
	_, stderr, code := psim(t, "psim plot memory o --out untraced.png")
	require.Zero(t, code, stderr)
	untraced, err := os.ReadFile("untraced.png")
	require.NoError(t, err)
	require.Equal(t, again, untraced)
}

// A file that the user has changed is named before the work, and stays (docs/files.md); --overwrite replaces
// files and removes none. The root folder and the home folder are refused.
func TestEditedFile(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim run gpipe --out o")
	require.Zero(t, code, stderr)
	analysis := contents(t, "o")["memory.csv"] + "3,9000000000,7\n"
	require.NoError(t, os.WriteFile("o/memory.csv", []byte(analysis), 0o644))
	before := contents(t, "o")
	stdout, stderr, code := psim(t, "psim run course-timeline --out o")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out o: memory.csv was changed since psim wrote it; name another folder, or replace it with --overwrite\n", stderr)
	require.Empty(t, stdout)
	require.Equal(t, before, contents(t, "o"))
	_, stderr, code = psim(t, "psim run course-timeline --out o --overwrite") // which has no memory.csv
	require.Zero(t, code, stderr)
	require.Equal(t, analysis, contents(t, "o")["memory.csv"])
	_, stderr, code = psim(t, "psim plot memory o")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: o: memory.csv is not the one that psim wrote with the other files there; run it again\n", stderr)
	_, stderr, code = psim(t, "psim run gpipe -o o --overwrite")
	require.Zero(t, code, stderr)
	require.NotEqual(t, analysis, contents(t, "o")["memory.csv"])

	here, err := os.Getwd()
	require.NoError(t, err)
	t.Setenv("HOME", here)
	for _, verb := range []string{"run gpipe", "compare o o", "search gpipe", "sweep gpipe --vary schedule.microbatches=4,8", "reproduce hw4", "validate --published zero-bubble", "exec --gpus 2 --oversubscribe"} {
		for folder, kind := range map[string]string{"/": "/: is the root folder", "o/..": "o/..: is your home folder"} {
			stdout, stderr, code := psim(t, "psim "+verb+" --out "+folder)
			require.Equal(t, exitUsage, code, verb)
			require.True(t, strings.HasPrefix(stderr, "psim: --out "+kind+"; name a folder in it, such as "), stderr)
			require.Equal(t, 1, strings.Count(stderr, "\n"))
			require.Empty(t, stdout)
		}
	}
	_, stderr, code = psim(t, "psim run gpipe") // into out/gpipe, in the home folder
	require.Zero(t, code, stderr)
}

// A folder that cannot be written to is refused before any work, and an empty name at once.
func TestRefusedBefore(t *testing.T) {
	userFolder(t)
	const nowhere = "/dev/null/x" // root cannot make it either
	for command, want := range map[string]string{
		"psim exec --gpus 2 --oversubscribe --out " + nowhere:            "psim: --out /dev/null/x: cannot be made: not a directory\n",
		"psim exec --gpus 2 --oversubscribe --save-gradients " + nowhere: "psim: --save-gradients /dev/null/x: cannot be made: not a directory\n",
		"psim search gpipe --out " + nowhere:                             "psim: --out /dev/null/x: cannot be made: not a directory\n",
		"psim search gpipe --out=":                                       "psim: --out: must not be empty; name a path, or leave the flag out\nsee \"psim search --help\"\n",
		"psim exec --gpus 2 --trace=":                                    "psim: --trace: must not be empty; name a path, or leave the flag out\nsee \"psim exec --help\"\n",
	} {
		stdout, stderr, code := psim(t, command)
		require.Equal(t, exitUsage, code, command)
		require.Equal(t, want, stderr)
		require.Empty(t, stdout)
	}
	if runtime.GOOS != "linux" {
		return
	}
	for _, command := range []string{"run gpipe", "compare ddp=1 ddp=2", "validate --published zero-bubble", "exec --gpus 2 --oversubscribe", "search gpipe", "search gpipe --devices 4", "sweep gpipe --vary schedule.microbatches=4,8", "reproduce hw4"} {
		stdout, stderr, code := psim(t, "psim "+command+" --out /proc/x")
		require.Equal(t, exitUsage, code, command)
		require.Equal(t, "psim: --out /proc/x: cannot be made: the kernel's folders keep no files\n", stderr)
		require.Empty(t, stdout)
	}
	for flag, command := range map[string]string{
		"--trace /proc/x.json": "run gpipe", "--out /proc/x.png": "plot timeline ddp=1", "--plot /proc/x.png": "schedule gpipe --stages 2 --microbatches 2",
	} {
		stdout, stderr, code := psim(t, "psim "+command+" "+flag)
		require.Equal(t, exitUsage, code, command)
		require.Equal(t, "psim: "+flag+": cannot be written: the kernel's folders keep no files\n", stderr)
		require.Empty(t, stdout)
	}
}

// A folder with files of two runs is neither drawn nor compared.
func TestTornFolder(t *testing.T) {
	userFolder(t)
	for _, line := range []string{"psim run gpipe --out a", "psim run 1f1b --out b"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	data, err := os.ReadFile("b/memory.csv")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("a/memory.csv", data, 0o644))
	_, stderr, code := psim(t, "psim plot memory a --out m.png")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: a: memory.csv is not the one that psim wrote with the other files there; run it again\n", stderr)
	require.NoError(t, os.Remove("a/.psim.json")) // as an older psim left it
	_, stderr, code = psim(t, "psim plot memory a --out m.png")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim run gpipe --out a") // nothing there is known to be psim's
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out a: timeline.png was not written by psim; name another folder, or replace it with --overwrite\n", stderr)
	_, stderr, code = psim(t, "psim run gpipe --out a --overwrite")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim run gpipe --out a")
	require.Zero(t, code, stderr)
}

// A figure with nothing to draw is a warning, of run and of plot.
func TestNothingToDraw(t *testing.T) {
	text, err := os.ReadFile(zeroTimeMemory)
	require.NoError(t, err)
	userFolder(t)
	require.NoError(t, os.WriteFile("zero.toml", text, 0o644))
	stdout, stderr, code := psim(t, "psim run zero.toml --out z")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "step time")
	require.Contains(t, stderr, "nothing to draw\n")
	require.NoFileExists(t, "z/memory.png")
	require.FileExists(t, "z/memory.csv")
	for _, kind := range []string{"timeline", "memory"} {
		_, stderr, code = psim(t, "psim plot "+kind+" z")
		require.Zero(t, code, stderr)
		require.True(t, strings.HasPrefix(stderr, "psim: no picture is drawn: z: the run takes no time"), stderr)
		require.NoFileExists(t, kind+".png")
	}
}

// A folder in the place of a file is refused before the work.
func TestCompareCannotWrite(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim run gpipe --out a")
	require.Zero(t, code, stderr)
	require.NoError(t, os.MkdirAll(filepath.Join("c", "compare.png"), 0o755))
	stdout, stderr, code := psim(t, "psim compare a a --out c")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out c: compare.png is a folder; name another folder\n", stderr)
	require.Empty(t, stdout)
}

// calibrate refuses "-" as the name of a machine file.
func TestCalibrateOut(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim calibrate --samples 1 --repeats 1 --out -")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--out -: name a file")
	require.NoFileExists(t, "-")
}

// A picture replaces a picture of psim, and no other file.
func TestPlotForeign(t *testing.T) {
	userFolder(t)
	for _, line := range []string{"psim run gpipe --out a", "psim run 1f1b --out b", "psim plot timeline a --out p.svg", "psim plot timeline b --out p.svg", "psim plot timeline a --out a/timeline.svg"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	require.NoError(t, os.WriteFile("mine.svg", []byte("mine"), 0o644))
	for line, want := range map[string]string{
		"psim plot timeline a --out mine.svg":       "psim: --out mine.svg: was not written by psim; name another file, or replace it with --overwrite\n",
		"psim plot timeline b --out a/timeline.svg": "psim: --out a/timeline.svg: is of psim run; name another file, or replace it with --overwrite\n",
		"psim schedule gpipe --plot mine.svg":       "psim: --plot mine.svg: was not written by psim; name another file, or replace it with --overwrite\n",
	} {
		_, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code, line)
		require.Equal(t, want, stderr)
	}
	require.Equal(t, "mine", contents(t, ".")["mine.svg"])
	_, stderr, code := psim(t, "psim plot timeline a --out q.svg")
	require.Zero(t, code, stderr)
	require.FileExists(t, "p.svg")
	_, stderr, code = psim(t, "psim run gpipe --out a")
	require.Zero(t, code, stderr)
}

// A result that the user has changed is refused by every reader, also without a trace next to it.
func TestEditedResult(t *testing.T) {
	userFolder(t)
	for _, line := range []string{"psim run gpipe --out o", "psim sweep gpipe --vary schedule.microbatches=4,8 --out s"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	for name, kinds := range map[string][]string{
		"o/result.json": {"time", "throughput", "split-time", "metric bubble.makespan", "efficiency", "timeline", "memory"}, "s/sweep.jsonl": {"sweep", "heatmap"},
	} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, append(text, '\n'), 0o644))
		folder, base := filepath.Split(name)
		for _, kind := range kinds {
			for _, path := range []string{filepath.Clean(folder), name} {
				_, stderr, code := psim(t, "psim plot "+kind+" "+path+" --out p.png")
				require.Equal(t, exitUsage, code, kind)
				require.Equal(t, "psim: "+filepath.Clean(folder)+": "+base+" is not the one that psim wrote with the other files there; run it again\n", stderr, kind)
			}
		}
	}
}

// A folder that psim names itself may be no link, and a part that is merged is not replaced.
func TestFoldersOfPsim(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.MkdirAll("dd", 0o755))
	require.NoError(t, os.Mkdir("precious", 0o755))
	for _, name := range []string{"devices-4", "shard-1-of-2"} {
		require.NoError(t, os.Symlink("../precious", "dd/"+name))
	}
	for line, link := range map[string]string{
		"psim search gpipe --devices 4,8 --schedules ddp --out dd":                        "devices-4",
		"psim search gpipe --devices 4 --schedules ddp --shard 1/2 --out dd":              "shard-1-of-2",
		"psim sweep gpipe --vary schedule.microbatches=4,8 --shard 1/2 --overwrite -o dd": "shard-1-of-2",
	} {
		stdout, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code)
		require.Equal(t, "psim: --out dd/"+link+": is a link, which psim does not follow; remove it, or name another folder\n", stderr)
		require.Empty(t, stdout)
	}
	require.Empty(t, contents(t, "precious"))

	for _, shard := range []string{"1/2", "2/2"} {
		_, stderr, code := psim(t, "psim sweep gpipe --vary schedule.microbatches=4,8 --out p --shard "+shard)
		require.Zero(t, code, stderr)
	}
	require.NoError(t, os.Symlink("p/shard-2-of-2", "link"))
	before := contents(t, "p")
	for _, out := range []string{"p/shard-1-of-2", "./p/../p/shard-2-of-2/", "link"} {
		_, stderr, code := psim(t, "psim merge p --overwrite --out "+out)
		require.Equal(t, exitUsage, code)
		require.Equal(t, "psim: --out "+out+": is one of the inputs; name another folder\n", stderr)
	}
	require.Equal(t, before, contents(t, "p"))
	_, stderr, code := psim(t, "psim merge p --out p")
	require.Zero(t, code, stderr)
}

// What a command reads is neither replaced nor removed by it, whatever flags say.
func TestInputsStay(t *testing.T) {
	userFolder(t)
	for _, line := range []string{"psim search gpipe --out sp", "psim sweep gpipe --vary schedule.microbatches=4,8 --out s"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	config := "[schedule]\nname = \"gpipe\"\nstages = 2\nmicrobatches = 4\n[model]\nfile = \"config.json\"\n[batch]\nmicro = 1\n"
	network := `{"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 64}`
	for name, text := range map[string]string{"m.toml": config, "config.json": network, "n.toml": "x"} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	before := contents(t, ".")
	plan := "plan-1.toml"
	require.Contains(t, contents(t, "sp"), plan)
	for line, want := range map[string]string{
		"search sp/" + plan + " --out sp":                         "--out sp: " + plan + " is one of the inputs; name another folder",
		"search sp/" + plan + " --out ./sp/ --overwrite":          "--out ./sp/: " + plan + " is one of the inputs; name another folder",
		"calibrate m.toml --out m.toml --overwrite":               "--out m.toml: is one of the inputs; name another file",
		"calibrate --nccl n.toml --out n.toml --overwrite":        "--out n.toml: is one of the inputs; name another file",
		"run m.toml --trace config.json":                          "--trace config.json: is one of the inputs; name another file",
		"run gpipe --trace s/sweep.json":                          "--trace s/sweep.json: is of psim sweep; name another file",
		"run config.json --devices 4 --trace ./sp/../config.json": "--trace ./sp/../config.json: is the configuration; name another file",
	} {
		stdout, stderr, code := psim(t, "psim "+line)
		require.Equal(t, exitUsage, code, line)
		require.Equal(t, "psim: "+want+"\n", stderr)
		require.Empty(t, stdout)
	}
	require.Equal(t, before, contents(t, "."))
}
