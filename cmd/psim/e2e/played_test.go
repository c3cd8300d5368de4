package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A play is a command that several tests need: the first of them runs it, and the others get its
// output and the files that it wrote.
type play struct {
	once           sync.Once
	stdout, stderr string
	code           int
	changed        map[string]string // files, by path
	removed        []string
	done           bool
}

// plays holds the plays by command line.
var plays sync.Map

// played runs a command, or repeats the effects that it had in another folder with the same files.
func (u user) played(t *testing.T, command string) (stdout, stderr string, code int) {
	t.Helper()
	if !repeats(command) {
		return u.psim(t, command)
	}
	found, _ := plays.LoadOrStore(command, new(play))
	p := found.(*play)
	p.once.Do(func() {
		other := newReader(t)
		before := other.tree(t, ".")
		p.stdout, p.stderr, p.code = other.psim(t, command)
		p.changed = other.tree(t, ".")
		for name, text := range before {
			switch now, is := p.changed[name]; {
			case !is:
				p.removed = append(p.removed, name)
			case now == text:
				delete(p.changed, name)
			}
		}
		p.done = true
	})
	require.True(t, p.done, "%s failed in another test", command)
	for _, name := range p.removed {
		require.NoError(t, os.RemoveAll(u.path(name)))
	}
	u.put(t, p.changed)
	return p.stdout, p.stderr, p.code
}

// repeats reports whether a command takes long and reads only examples and files that all readers
// have, so that it does the same in the folder of any reader.
func repeats(command string) bool {
	return trains(command) || strings.HasPrefix(command, "psim reproduce") || strings.HasSuffix(command, " --out -")
}

// put writes files of another folder.
func (u user) put(t *testing.T, files map[string]string) {
	for name, text := range files {
		if text != aFolder {
			u.write(t, name, text)
		}
	}
}

// newReader returns a user who also has the other files that the documents' commands read: results,
// also of a course's scripts, the output of nccl-tests, and runs of a cluster.
func newReader(t *testing.T) user {
	t.Helper()
	u := newUser(t)
	course := filepath.Join(root(t), "courses", "coursefile", "testdata")
	for name, folder := range map[string]string{"data": "cs1390", "workdir_single_gpu": "workdir_single_gpu", "workdir_dual_gpu": "workdir_dual_gpu"} {
		require.NoError(t, os.Symlink(filepath.Join(course, folder), u.path(name)))
	}
	timed, err := os.ReadFile(filepath.Join("testdata", "all_reduce.txt"))
	require.NoError(t, err)
	for _, name := range []string{"2-gpus.txt", "8-gpus.json", "all_reduce.txt", "all_gather.txt", "reduce_scatter.txt"} { // their content does not matter
		u.write(t, name, string(timed))
	}
	u.write(t, "runs.csv", "config,step_time\nllama3-70b,89s\nllama3-70b,90s\n")
	u.write(t, "ds_config.json", `{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}}`)
	u.write(t, "config.json", `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 256,
		"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 4096}`)
	for _, name := range []string{"train.log", "run.sh", "common.sh", "args.yaml", "finetune.sh", "accelerate.yaml", "network.json", "trainer.log"} { // of a training
		require.NoError(t, os.Symlink(filepath.Join(root(t), "launch", "testdata", name), u.path(name)))
	}
	for _, name := range []string{"ddp.toml", "traces"} {
		require.NoError(t, os.Symlink(filepath.Join(root(t), "profiles", "testdata", name), u.path(name)))
	}
	u.put(t, savedResults(t))
	return u
}

// saved holds the results that every reader has.
var saved struct {
	sync.Once
	files map[string]string
}

// savedResults makes the results once: two predictions, the parts of a sweep, and a measurement.
func savedResults(t *testing.T) map[string]string {
	t.Helper()
	saved.Do(func() {
		u := mlpUser(t)
		const shard = "psim sweep gpipe --vary parallel.data=1,2,4 --out out/parts --shard "
		const measured = "psim exec mlp.toml" + untimed + " --steps 1 --repeats 1 --out out/measured"
		for _, line := range []string{"psim run gpipe", "psim run 1f1b", shard + "1/2", shard + "2/2", measured} {
			_, stderr, code := u.psim(t, line)
			require.Zero(t, code, stderr)
		}
		saved.files = u.tree(t, "out")
	})
	require.NotNil(t, saved.files, "the test that made the results has failed")
	return saved.files
}
