package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
)

// TestContract checks the fields of the result that scripts rely on.
func TestContract(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim run gpipe --json")
	require.Zero(t, code)
	require.Empty(t, stderr)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	for _, key := range []string{
		"kind", "name", "schedule", "stages", "virtual_stages", "microbatches", "data_parallel", "tensor_parallel",
		"step_time_s", "makespan_s", "bubble", "throughput", "ranks", "fits_memory", "tasks", "build_s", "simulation_s", "warnings",
	} {
		require.Contains(t, r, key)
	}
	require.Equal(t, []any{}, r["warnings"])
	require.Len(t, r["ranks"], 4)
	for _, rank := range r["ranks"].([]any) {
		rank := rank.(map[string]any)
		sum := 0.0
		for _, part := range []string{"compute_s", "exposed_communication_s", "optimizer_s", "idle_s"} {
			sum += rank[part].(float64)
		}
		require.InDelta(t, r["step_time_s"], sum, 1e-9)
		for _, key := range []string{"rank", "communication_s", "peak_memory_bytes", "persistent_memory_bytes", "peak_in_flight", "sent_bytes"} {
			require.Contains(t, rank, key)
		}
	}
	_, err := os.Stat("out")
	require.True(t, os.IsNotExist(err), "--json alone writes no files")
}

// TestIdenticalFiles runs everything twice and compares all bytes.
func TestIdenticalFiles(t *testing.T) {
	userFolder(t)
	for name, trace := range map[string]string{"gpipe": "t.json.gz", "ddp": "t.pftrace", "course-timeline": "t.json"} {
		var first map[string]string
		for _, folder := range []string{"a", "b"} {
			stdout, _, code := psim(t, "psim run "+name+" --quiet --out "+folder+" --trace "+folder+"/"+trace)
			require.Zero(t, code)
			files := contents(t, folder)
			files["stdout"] = stdout
			if first == nil {
				first = files
				require.Contains(t, files, "timeline.png")
				require.Contains(t, files, "result.json")
				require.NotContains(t, files["result.json"], "build_s")
				require.NotEmpty(t, files[trace])
				continue
			}
			require.Equal(t, len(first), len(files))
			for f := range first {
				require.True(t, first[f] == files[f], "%s: %s differs between two runs", name, f)
			}
		}
	}
}

// contents reads all files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == ".psim.json" {
			return err
		}
		data, err := os.ReadFile(path)
		files[filepath.Base(path)] = string(data)
		return err
	}))
	return files
}

// TestErrors compares the message of every kind of wrong usage. All of them
// exit with 2, print nothing on stdout and leave no file behind.
func TestErrors(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("file", nil, 0o644))
	require.NoError(t, os.WriteFile("wrong.csv", []byte("0F0,0F1,0B0,0B1\n1F0,1B1,1F1,1B0\n"), 0o644))
	require.NoError(t, os.WriteFile("broken.json", []byte(`{"kind": "predicted`), 0o644))
	require.NoError(t, os.WriteFile("run.sh", []byte("#!/bin/bash\ntorchrun --nproc-per-node 8 train.py\n"), 0o644))
	require.NoError(t, os.WriteFile("step.log", []byte("step 1: loss 10.97, 234 ms\n"), 0o644))
	before := contents(t, ".")
	var all strings.Builder
	for _, command := range []string{
		"psim rnu gpipe",
		"psim run",
		"psim run gpipe 1f1b",
		"psim run gpipe --jsn",
		"psim run gpipe --json --csv",
		"psim run no-such-file.toml",
		"psim run configs",
		"psim run wrong.csv",
		"psim run run.sh",
		"psim run step.log",
		"psim run broken.json",
		"psim run llama3-8b",
		"psim run llama3-9b",
		"psim run model:lama3-8b",
		"psim run gpipe --device a100-80gb-sxm",
		"psim run gpipe --network ib-ndr",
		"psim run my.toml --devices 8",
		"psim run llama3-8b --device h100-80gb-sx",
		"psim run llama3-8b --device t4 --devices 0",
		"psim run llama3-8b --device t4 --devices 8 --set parallel.data=4",
		"psim run course-timeline --device t4",
		"psim list link",
		"psim show llama3-9b",
		"psim run gpipe --set schedule.stages",
		"psim run gpipe --set schedule.stages=0",
		"psim run gpipe --set schedule.mikrobatches=4",
		"psim run gpipe --out file",
		"psim run gpipe --out file/below",
		"psim run gpipe --trace t.txt",
		"psim run gpipe --out - --trace nowhere/t.json",
		"psim run gpipe --out o --trace o/result.json",
		"psim run my.toml --trace my.toml",
		"psim run my.toml --trace out/my/result.json",
		"psim run ring-allreduce --set collective.bytes=6EB",
		"psim run course-timeline --set memory.activation=9EB",
		"psim run course-timeline --set parallel.zero=2",
		"psim schedule",
		"psim schedule ring-allreduce",
		"psim schedule 1f1c",
		"psim schedule fsdp",
		"psim schedule 1f1b --stages 0",
		"psim schedule 1f1b --microbatches -3",
		"psim schedule 1f1b --virtual 2",
		"psim schedule ddp --stages 4",
		"psim schedule 1f1b --format yaml",
		"psim schedule interleaved-1f1b --stages 3 --microbatches 7 --virtual 2",
		"psim schedule interleaved-1f1b --microbatches 10 --virtual 2 --group 7",
		"psim schedule 1f1b --group 4",
		"psim schedule zb-h1 --plot zb-h1.gif",
		"psim schedule zb-h1 --plot nowhere/zb-h1.png",
		"psim schedule nowhere.csv",
		"psim schedule wrong.csv",
		"psim schedule wrong.csv --stages 2",
		"psim plot timeline",
		"psim plot pie out/gpipe",
		"psim plot timeline nowhere",
		"psim plot timeline broken.json",
		"psim plot timeline configs",
		"psim plot timeline configs --out x.gif",
		"psim plot throughput dpd=2",
		"psim plot throughput ddp=1,,2",
		"psim plot throughput ddp=0",
		"psim plot throughput ddp=x",
		"psim plot metric ranks ddp=2",
		"psim plot metric compute_s ddp=2",
		"psim plot metric bubbel.makespan ddp=2",
		"psim plot metric step_time_s",
		"psim plot loss ddp=2",
		"psim plot efficiency ddp=2",
		"psim plot time ddp=2 --window 1s-2s",
		"psim plot timeline model=3 --ranks 2-3",
		"psim plot timeline model=3 --ranks 3-2",
		"psim plot timeline ddp=2 --replica 2",
		"psim plot timeline model=3 --window 1s",
		"psim plot timeline model=3 --window 100s-200s",
		"psim plot heatmap ddp=1 ddp=2",
		"psim plot sweep ddp=1",
		"psim plot throughput pipeline=2 --config course-timeline",
		"psim plot throughput configs --set batch.global=1",
		"psim plot compare broken.json",
		"psim plot compare a b c",
		"psim compare",
		"psim compare a b c",
		"psim compare a b --json --csv",
		"psim compare nowhere",
		"psim compare broken.json my.toml",
		"psim compare configs configs",
		"psim sweep gpipe",
		"psim sweep gpipe --vary schedule.stages",
		"psim sweep gpipe --vary stages=1",
		"psim sweep gpipe --vary schedule.stages=2,,4",
		"psim sweep gpipe --vary schedule.stages=2,x",
		"psim sweep gpipe --vary schedule.stage=2",
		"psim sweep gpipe --vary schedule.stages=2 --vary schedule.stages=4",
		"psim sweep gpipe --vary schedule.stages=2 --shard 3/2 --out o",
		"psim sweep gpipe --vary schedule.stages=2 --shard 1/2",
		"psim sweep gpipe --vary schedule.stages=2 --out file",
		"psim merge",
		"psim merge nowhere",
		"psim merge configs --out o",
		"psim reproduce",
		"psim reproduce cs1309",
		"psim reproduce hw5",
		"psim reproduce hw4 --full",
		"psim reproduce hw4 --budget 5m",
		"psim reproduce hw4 --measure --budget 5",
		"psim reproduce hw4 --measure --budget 10ms",
		"psim reproduce hw4 --out my.toml",
		"psim validate --steps 3",
		"psim validate 1.6 --set model.layers=1",
		"psim exec a b",
		"psim exec nowhere.toml",
		"psim exec course-timeline",
		"psim exec --gpus 99",
		"psim exec --gpus -1",
		"psim exec --gpus 2 --check wheights",
		"psim exec exec --gpus 2 --check --learning-rate 1e-3",
		"psim exec --gpus 2 --backend cuda",
		"psim exec --gpus 2 --share",
		"psim exec --gpus 2 --data cifar10:nowhere",
		"psim exec --gpus 2 --data parquet:x",
		"psim exec --gpus 2 --data pairs:broken.json",
		"psim exec --gpus 2 --steps 0",
		"psim exec --gpus 2 --set train.recompute=selective",
		"psim exec --gpus 2 --set train.recompute=[norm,mlp]",
		"psim exec --gpus 2 --set train.precision=fp8",
		"psim exec --gpus 2 --set parallel.context=2",
		"psim exec --gpus 2 --set parallel.expert=2",
		"psim exec ddp --gpus 2 --set parallel.zero=1",
		"psim exec --gpus 3 --set parallel.data=2",
		"psim exec --gpus 2 --learning-rate -1",
		"psim exec --gpus 2 --learning-rate 1e9",
		"psim exec --gpus 2 --learning-rate NaN",
		"psim exec --gpus 2 --learning-rate 0",
		"psim exec --gpus 2 --learning-rate 1e400",
		"psim exec --gpus 0",
		"psim exec --gpus two",
		"psim exec --gpus 99999999999999999999",
		"psim run gpipe --epochs 0",
		"psim run gpipe --set data.tokens=2T --epochs 9000000000000000000",
		"psim run gpipe --epochs 3",
		"psim run gpipe --shards",
		"psim run gpipe --set data.tokens=15T --shards",
		"psim run course-timeline --set data.samples=5",
		"psim run ring-allreduce --set data.samples=5",
		"psim exec --gpus 2 --epochs 0",
		"psim exec --gpus 2 --epochs 2 --steps 3",
		"psim exec --gpus 2 --epochs 2",
		"psim exec --gpus 2 --validation -1",
		"psim exec --gpus 2 --cores-per-worker -1",
		"psim exec --gpus 2 --save-gradients file",
		"psim exec --gpus 2 --devices 3",
		"psim exec --gpus 2 --seed -1",
		"psim exec --gpus 2 --stall 5",
		"psim exec --gpus 2 --per-layer=maybe",
		"psim exec --gpus 2 --per-layer --set train.backward=two-pass",
		"psim exec --gpus 2 --steps 9223372036854775807",
		"psim exec --gpus 2 --warmup 9223372036854775807",
		"psim exec --gpus 2 --repeats 9223372036854775807",
		"psim exec --gpus 2 --check all,bogus",
		"psim exec --gpus 2 --backend=",
		"psim exec --gpus 2 --data synthetic:x",
		"psim exec --gpus 2 --data pairs:nowhere",
		"psim exec --gpus 2 --data pairs",
		"psim exec --gpus 2 --data pairs:configs",
		"psim exec --gpus 2 --data cifar10",
		"psim exec --gpus 2 --trace comparison.json",
		"psim calibrate --samples 1,x",
		"psim validate --gpus 3",
		"psim validate --executed --gpus 0",
		"psim validate --executed --runs 4",
		"psim validate --executed zero-bubble",
		"psim list",
		"psim list device",
		"psim version now",
		"psim validate 9.9",
		"psim validate 1.6 --with X=4",
		"psim validate 1.6 --with W=0",
		"psim validate 1.6 --with B=12.5",
		"psim validate 2.3 --with P=16",
		"psim validate 1.1 --with W=8",
		"psim validate --published --with W=8",
		"psim validate gpt2-4090d",
		"psim validate --json --markdown",
		"psim validate --published zero-bubble-2023-table-6",
		"psim validate --published --executed",
		"psim validate --published --gpus 3",
		"psim validate --out figures",
		"psim validate --published --out my.toml",
	} {
		stdout, stderr, code := psim(t, command)
		require.Equal(t, exitUsage, code, "%s: %s", command, stderr)
		require.Empty(t, stdout, command)
		all.WriteString("$ " + command + "\n" + stderr + "\n")
	}
	require.Equal(t, before, contents(t, "."), "wrong usage leaves no files")
	t.Chdir(filepath.Join(mustRoot(t), "cmd", "psim", "cli"))
	golden.Equal(t, "errors.txt", all.String())
}

// mustRoot finds the repository from a user's folder.
func mustRoot(t *testing.T) string {
	configs, err := filepath.EvalSymlinks("configs")
	require.NoError(t, err)
	return filepath.Dir(configs)
}

// TestReadOnlyFolder checks the message where --out cannot be written to.
func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	userFolder(t)
	require.NoError(t, os.Mkdir("locked", 0o555))
	stdout, stderr, code := psim(t, "psim run gpipe --out locked")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out locked: cannot be written to: permission denied\n", stderr)
	require.Empty(t, stdout)
}

// TestDefaultFolderInTheWay checks that a run still answers where the default
// folder cannot be made.
func TestDefaultFolderInTheWay(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("out", nil, 0o644))
	stdout, stderr, code := psim(t, "psim run gpipe")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "step time")
	require.Contains(t, stderr, "no files are written")
}

// TestInterrupted checks that a cancelled run ends with 1 and no files.
func TestInterrupted(t *testing.T) {
	userFolder(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stderr strings.Builder
	require.Equal(t, exitFailed, Run(ctx, []string{"run", "gpipe", "--out", "new"}, io.Discard, &stderr))
	require.Equal(t, "psim: interrupted\n", stderr.String())
	_, err := os.Stat("new")
	require.True(t, os.IsNotExist(err))

	require.NoError(t, os.WriteFile("mine.csv", []byte("0F0,0B0\n"), 0o644))
	for _, name := range []string{"v-half", "mine.csv"} {
		stderr.Reset()
		var stdout strings.Builder
		require.Equal(t, exitFailed, Run(ctx, []string{"schedule", name}, &stdout, &stderr))
		require.Equal(t, "psim: interrupted\n", stderr.String())
		require.Empty(t, stdout.String())
	}
}

// TestPlot draws saved results again.
func TestPlot(t *testing.T) {
	userFolder(t)
	for _, name := range []string{"gpipe", "1f1b", "course-timeline"} {
		_, stderr, code := psim(t, "psim run "+name)
		require.Zero(t, code, stderr)
	}
	for _, line := range []string{
		"psim plot timeline out/gpipe", "psim plot timeline out/gpipe/result.json out/1f1b --out both.svg", "psim plot memory out/1f1b --out m.png",
	} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
	drawn, saved := contents(t, ".")["timeline.png"], contents(t, "out/gpipe")["timeline.png"]
	require.True(t, drawn == saved, "plotting a saved result gives the same picture")
	_, stderr, code := psim(t, "psim run course-timeline --out out/gpipe")
	require.Zero(t, code, stderr)
	require.NotContains(t, contents(t, "out/gpipe"), "memory.csv", "files of an earlier run are gone")
	_, stderr, code = psim(t, "psim plot memory out/course-timeline")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: out/course-timeline: the run has no memory.csv, because nothing in it uses memory; add [memory] or use [model]\n", stderr)
}

// TestSize checks that a graph too large for any memory is refused at once.
func TestSize(t *testing.T) {
	userFolder(t)
	for _, command := range []string{
		"psim run gpipe --set schedule.name=1f1b --set batch.global=2000000000 --set schedule.microbatches=200000000",
		"psim run ring-allreduce --set collective.ranks=1000000",
		"psim schedule 1f1b --stages 4294967296 --microbatches 4294967296",
	} {
		stdout, stderr, code := psim(t, command)
		require.Equal(t, exitUsage, code, command)
		require.Empty(t, stdout)
		require.Regexp(t, `the graph would have about \S+ tasks and need about \S+ .B of memory`, stderr, command)
	}
}

// TestAllOrNothing checks that a folder in the way leaves an earlier result as
// it was, and is named before the work.
func TestAllOrNothing(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim run gpipe --out o")
	require.Zero(t, code, stderr)
	before := contents(t, "o")
	require.NoError(t, os.Remove("o/memory.png"))
	delete(before, "memory.png")
	require.NoError(t, os.MkdirAll("o/memory.png/x", 0o755))
	stdout, stderr, code := psim(t, "psim run 1f1b --out o")
	require.Equal(t, exitUsage, code)
	require.Empty(t, stdout)
	require.Equal(t, "psim: --out o: memory.png is a folder; name another folder\n", stderr)
	require.Equal(t, before, contents(t, "o"))
}

// TestForeignFiles checks that --out refuses a folder in which a run would
// replace or remove a user's own file.
func TestForeignFiles(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("memory.png", []byte("mine"), 0o644))
	_, stderr, code := psim(t, "psim run course-timeline --out .")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out .: memory.png was not written by psim; name another folder, or replace it with --overwrite\n", stderr)
	require.Equal(t, "mine", contents(t, ".")["memory.png"])
}

// TestFolderNames checks that variants do not share a folder.
func TestFolderNames(t *testing.T) {
	seen := map[string]bool{}
	long := strings.Repeat("x", 200)
	for _, sets := range [][]string{nil, {"batch.micro=2"}, {"parallel.zero=2"}, {"schedule.name=1f1b"}, {"a.b=" + long + "1"}, {"a.b=" + long + "2"}} {
		name := folderName("ddp", sets)
		require.Regexp(t, `^ddp[A-Za-z0-9._=-]*$`, name)
		require.False(t, seen[name], name)
		seen[name] = true
	}
	require.Equal(t, "run", folderName("..", nil))
	require.Equal(t, "a_b_c-k=v_w", folderName("a b/c", []string{"k=v w"}))
}

// fullDevice fails every write.
type fullDevice struct{}

func (fullDevice) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestFullStdout checks that output that is lost is a failure of every verb.
func TestFullStdout(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim run gpipe --out out/a")
	require.Zero(t, code, stderr)
	for _, line := range []string{"run gpipe --out -", "run gpipe --json", "schedule 1f1b", "validate", "validate --json", "list devices", "version", "completion bash", "help", "help config", "run --help", "compare out/a out/a"} {
		var stderr strings.Builder
		require.Equal(t, exitFailed, Run(context.Background(), strings.Fields(line), fullDevice{}, &stderr), line)
		require.Equal(t, "psim: stdout: no space left on device\n", stderr.String(), line)
	}
}
