package slurm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
)

// example is the submission of docs/clusters.md.
func example() *Submission {
	return &Submission{
		Program: "/shared/bin/psim", Version: "psim 0.1.0 go1.26.8 linux/amd64", Work: "/home/ann/runs", Folder: "/shared/ann/175b",
		Verb: "search", Args: []string{"megatron-175b", "--devices=1024"}, Merge: []string{}, Shards: 16, Partition: "cpu", Time: "2:00:00",
	}
}

// The scripts are those of a golden file, which the document shows.
func TestScripts(t *testing.T) {
	text := example().Scripts(1001)
	golden.Equal(t, "scripts.sh", text)
	document, err := os.ReadFile("../../../docs/clusters.md")
	require.NoError(t, err)
	for _, script := range []string{example().shardScript(), example().mergeScript()} {
		require.Contains(t, string(document), "```bash\n"+script+"```\n")
	}
	bash := exec.Command("bash", "-n")
	bash.Stdin = strings.NewReader(text)
	out, err := bash.CombinedOutput()
	require.NoError(t, err, string(out))
}

// Whatever is in a word, the shell reads it as it was.
func TestQuoted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.StringOf(rapid.SampledFrom([]rune("ab '\"$`\\\n*~%!#;&|()[]{}-=é"))).Draw(r, "word")
		out, err := exec.Command("bash", "-c", "printf %s "+Quoted(word)).Output()
		require.NoError(r, err)
		require.Equal(r, word, string(out))
	})
}

// The arrays of all blocks have each shard once, and none has more tasks than Slurm allows.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		most := rapid.IntRange(0, 12).Draw(r, "most")
		var shards, found []int
		for n := 1; n <= 40; n++ {
			if rapid.Bool().Draw(r, "missing") {
				shards = append(shards, n)
			}
		}
		for _, b := range blocksOf(shards, most) {
			for list := range strings.SplitSeq(b.indices(), ",") {
				var from, to int
				if n, _ := fmt.Sscanf(list, "%d-%d", &from, &to); n == 1 {
					to = from
				}
				for i := from; i <= to; i++ {
					require.True(r, most == 0 || i < most)
					found = append(found, b.first+i)
				}
			}
		}
		require.Equal(r, shards, found)
	})
	require.Equal(t, "0-2,5,7-8", block{tasks: []int{0, 1, 2, 5, 7, 8}}.indices())
}

// A cluster stands in for Slurm.
type cluster struct{ folder string }

func newCluster(t *testing.T) (cluster, *Submission) {
	t.Helper()
	fake, err := filepath.Abs("testdata/fake")
	require.NoError(t, err)
	c := cluster{t.TempDir()}
	t.Setenv("PATH", fake+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE", c.folder)
	s := example()
	s.Folder, s.Shards = filepath.Join(t.TempDir(), "a folder"), 4
	return c, s
}

func (c cluster) put(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(c.folder, name), []byte(text), 0o644))
}

// said returns the commands that sbatch got since the last call.
func (c cluster) said(s *Submission) string {
	data, _ := os.ReadFile(filepath.Join(c.folder, "said"))
	os.Remove(filepath.Join(c.folder, "said"))
	return strings.ReplaceAll(strings.ReplaceAll(string(data), s.Folder, "DIR"), s.name(), "NAME")
}

// finish makes the files of a shard that has ended.
func finish(t *testing.T, s *Submission, shard, code int, log string) {
	require.NoError(t, s.write(fmt.Sprintf("shard-%d.log", shard), log))
	require.NoError(t, s.write(fmt.Sprintf("shard-%d.end", shard), fmt.Sprintf("%d 12 n7\n0m0.000s 0m0.001s\n1m2.000s 0m0.500s\n", code)))
	if code == 0 {
		folder := filepath.Join(s.Folder, "parts", fmt.Sprintf("shard-%d-of-%d", shard, s.Shards))
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "plans.json"), []byte("{}"), 0o644))
	}
}

func TestSubmission(t *testing.T) {
	c, s := newCluster(t)
	ctx := context.Background()
	done, err := s.Submit(ctx)
	require.NoError(t, err)
	require.Equal(t, "submitted 4 shards as job 1, and the merge as job 2", done)
	require.Equal(t, "--parsable --job-name=NAME-1 --array=0-3 DIR/slurm/shard.sh 1\n"+
		"--parsable --job-name=NAME-merge --dependency=afterany:1 DIR/slurm/merge.sh 1\n", c.said(s))

	// The same command goes on, from any machine, and another is refused.
	c.put(t, "queue", fmt.Sprintf("1_0|0|%[1]s-1|RUNNING|0:05|n1|None\n1_[1-3]|1|%[1]s-1|PENDING|0:00||Priority\n"+
		"1_2|2|%[1]s-1|PENDING|0:00||Priority\n1_3|3|%[1]s-1|PENDING|0:00||Priority\n2|N/A|%[1]s-merge|PENDING|0:00||Dependency\n"+
		"9|N/A|somebody|RUNNING|1-02:03:04|n2|None\n", s.name()))
	done, err = s.Submit(ctx)
	require.NoError(t, err)
	require.Equal(t, "was submitted before and goes on: nothing is missing", done)
	require.Empty(t, c.said(s))
	for want, change := range map[string]func(*Submission){
		"another command was submitted for it (psim search megatron-175b --devices=1024)": func(s *Submission) { s.Args = s.Args[:1] },
		"was submitted by psim 0.1.0": func(s *Submission) { s.Version = "psim 0.2.0" },
		"other contents":              func(s *Submission) { s.Configuration = "x" },
		"another command":             func(s *Submission) { s.Shards = 5 },
	} {
		other := *s
		change(&other)
		_, err = other.Submit(ctx)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(OtherError))
	}
	loaded, err := Load(s.Folder)
	require.NoError(t, err)
	require.Equal(t, s, loaded)

	// What shards became is in their files and in the queue.
	finish(t, s, 1, 0, "")
	finish(t, s, 2, 2, "psim: x.toml:3: wrong\n")
	finish(t, s, 3, 1, "no message\n")
	c.put(t, "queue", fmt.Sprintf("2|N/A|%s-merge|RUNNING|0:00|n1|None\n", s.name()))
	now, err := s.Outlook(ctx)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, now.WriteText(&text))
	golden.Equal(t, "standing.txt", text.String())
	require.Equal(t, Running, now.Merging)
	require.False(t, now.Stuck())

	// The job that merges does not submit what failed by its own fault.
	t.Setenv("SLURM_JOB_ID", "2")
	said, err := s.Ready(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, "shard 2 failed: x.toml:3: wrong\nshard 3 is missing: exit code 1\nshard 4 is missing: never began\n"+
		"shards that fail so would fail again; psim status "+Quoted(s.Folder)+" --resubmit submits them again", said)
	require.Empty(t, c.said(s))
	finish(t, s, 2, 0, "")

	// It submits what is missing, twice.
	said, err = s.Ready(ctx, 1)
	require.NoError(t, err)
	require.Contains(t, said, "submitted 2 shards as job 3, and the merge as job 4")
	require.Equal(t, "--parsable --job-name=NAME-1 --array=2-3 DIR/slurm/shard.sh 1\n"+
		"--parsable --job-name=NAME-merge --dependency=afterany:3 DIR/slurm/merge.sh 2\n", c.said(s))
	said, err = s.Ready(ctx, 3)
	require.NoError(t, err)
	require.Contains(t, said, "3 times is enough")
	require.Empty(t, c.said(s))
	c.put(t, "refuses", "sbatch: error: Access denied\n")
	said, err = s.Ready(ctx, 1)
	require.NoError(t, err)
	require.Contains(t, said, "sbatch says: sbatch: error: Access denied; on a login node, psim status")
	require.NoError(t, os.Remove(filepath.Join(c.folder, "refuses")))

	// It waits for what others have submitted.
	c.put(t, "queue", fmt.Sprintf("5_2|2|%[1]s-1|RUNNING|0:05|n1|None\n5_3|3|%[1]s-1|COMPLETING|0:05|n1|None\n", s.name()))
	finish(t, s, 4, 0, "")
	_, err = s.Ready(ctx, 3)
	require.NoError(t, err)
	require.Equal(t, "--parsable --job-name=NAME-merge --dependency=afterany:5 DIR/slurm/merge.sh 3\n", c.said(s))

	// When all are there, a merge that was killed is submitted again, and nothing once there is an answer.
	finish(t, s, 3, 0, "")
	c.put(t, "queue", "")
	said, err = s.Ready(ctx, 3)
	require.NoError(t, err)
	require.Empty(t, said)
	now, err = s.Outlook(ctx)
	require.NoError(t, err)
	require.True(t, now.Stuck())
	done, err = s.Resubmit(ctx)
	require.NoError(t, err)
	require.Contains(t, done, "submitted the merge as job")
	require.Equal(t, "--parsable --job-name=NAME-merge DIR/slurm/merge.sh 1\n", c.said(s))
	require.NoError(t, os.WriteFile(filepath.Join(s.Folder, "plans.json"), []byte("{}"), 0o644))
	done, err = s.Submit(ctx)
	require.NoError(t, err)
	require.Equal(t, "the answer is there already", done)
	text.Reset()
	now, err = s.Outlook(ctx)
	require.NoError(t, err)
	require.NoError(t, now.WriteJSON(&text))
	require.Contains(t, text.String(), `"done": 4`)
	require.Contains(t, text.String(), `"answered": true`)
}

// A shard whose search was interrupted is not done.
func TestPartial(t *testing.T) {
	_, s := newCluster(t)
	_, err := s.Submit(context.Background())
	require.NoError(t, err)
	finish(t, s, 1, 0, "")
	require.NoError(t, os.WriteFile(filepath.Join(s.Folder, "parts", "shard-1-of-4", "plans.json"), []byte(`{"partial": true}`), 0o644))
	now, err := s.Outlook(context.Background())
	require.NoError(t, err)
	require.Zero(t, now.Count(Done))
}

// An array limit below the number of shards makes several arrays, and one shard an array of one.
func TestArrayLimit(t *testing.T) {
	c, s := newCluster(t)
	t.Setenv("MAX_ARRAY", "3")
	_, err := s.Submit(context.Background())
	require.NoError(t, err)
	require.Equal(t, "--parsable --job-name=NAME-1 --array=0-2 DIR/slurm/shard.sh 1\n"+
		"--parsable --job-name=NAME-4 --array=0 DIR/slurm/shard.sh 4\n"+
		"--parsable --job-name=NAME-merge --dependency=afterany:1:2 DIR/slurm/merge.sh 1\n", c.said(s))
	c.put(t, "queue", fmt.Sprintf("2_0|0|%s-4|PENDING|0:00||Priority\n", s.name()))
	now, err := s.Outlook(context.Background())
	require.NoError(t, err)
	require.Equal(t, []int{4}, now.in(Waiting))
	t.Setenv("MAX_ARRAY", "0")
	_, err = MaxArraySize(context.Background())
	require.ErrorContains(t, err, "no job arrays")
}

// What Slurm refuses is shown in its words, and leaves nothing behind.
func TestRefused(t *testing.T) {
	c, s := newCluster(t)
	ctx := context.Background()
	c.put(t, "refuses", "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed\n")
	_, err := s.Submit(ctx)
	require.EqualError(t, err, "sbatch says: sbatch: error: invalid partition specified: nope sbatch: error: Batch job submission failed")
	require.NoDirExists(t, s.Folder)
	require.NoError(t, os.Remove(filepath.Join(c.folder, "refuses")))
	_, err = s.Submit(ctx)
	require.NoError(t, err)
	c.put(t, "down", "squeue: error: Unable to contact slurm controller\n")
	_, err = s.Outlook(ctx)
	require.ErrorContains(t, err, "Unable to contact slurm controller")
	t.Setenv("PATH", t.TempDir())
	_, err = s.Submit(ctx)
	require.ErrorIs(t, err, ErrNoSlurm)
	_, err = Load(t.TempDir())
	require.ErrorContains(t, err, "holds nothing that was submitted")
}

func TestClock(t *testing.T) {
	for text, want := range map[string]float64{"0:05": 5, "1:02:03": 3723, "2-00:00:01": 172801, "": 0} {
		require.InDelta(t, want, clock(text), 0, text)
	}
}

// The time that is left follows from the shards that are done.
func TestLeft(t *testing.T) {
	now := &Outlook{Left: -1, Fates: []Fate{
		{State: Done, Seconds: 10}, {State: Done, Seconds: 10}, {State: Running, Seconds: 4}, {State: Waiting}, {State: Missing},
	}}
	now.estimate(example())
	require.InDelta(t, 16, now.Left, 0)
	now.Best = 38 * time.Millisecond
	require.Equal(t, "5 shards: 2 done, 1 running, 1 waiting, 1 missing; the best step so far is 38.0 ms; about 16.0 s left", now.sum())
}
