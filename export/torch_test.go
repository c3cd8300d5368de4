package export_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/export"
	"psim/results"
	"psim/schedules/graph"
)

var llama = []string{"model.family=llama", "model.ffn_hidden=64", "model.heads=4", "model.kv_heads=2", "model.tied=false"}

// write returns the program of a small network.
func write(t *testing.T, sets ...string) (string, error) {
	small := []string{"model.layers=4", "model.hidden=32", "model.vocab=64", "model.sequence_length=16", "batch.global=8"}
	c, err := psim.Load("exec", append(small, sets...)...)
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = export.WriteTorch(&b, c)
	return b.String(), err
}

// A key that the program cannot follow is named.
func TestTorchErrors(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"schedule.name=ddp", "schedule.stages=1", "parallel.data=2", "parallel.zero=1"}, "parallel.zero: export torch: "},
		{[]string{"schedule.name=ddp", "schedule.stages=1", "parallel.data=2", "parallel.zero=3"}, "model.tied: export torch: "},
		{[]string{"schedule.name=pipedream"}, "schedule.name: export torch: "},
		{[]string{"schedule.name=chimera"}, "schedule.name: export torch: "},
		{append(llama, "model.family=mixtral", "model.experts=4", "model.experts_per_token=2"), "model: a mixture of experts is simulated, but not executed"},
		{append(llama, "model.parallel_block=true"),
			"model: export torch: the program has no layer like layers.0, which is not Llama's; it has the families gpt, llama, vgg and mlp"},
		{append(llama, "model.sinks=true"), "model: export torch: the program has no layer like layers.0 with self_attn.softmax.sinks; "},
		{[]string{"model.dropout=0.1"}, "model.dropout: export torch: "},
		{[]string{`train.frozen=["embedding"]`}, "train.frozen: export torch: the program trains all weights"},
		{[]string{"train.recompute=full"}, "train.recompute: export torch: "},
	} {
		_, err := write(t, c.sets...)
		require.ErrorContains(t, err, c.want)
	}
}

// The program has the order, the cut and the parameters with their first deviations.
func TestTorchPlan(t *testing.T) {
	text, err := write(t, "schedule.name=zb-h1")
	require.NoError(t, err)
	for _, want := range []string{
		`"0F0,0F1,0I0,0W0,`, `"h.3.mlp.c_proj.weight"`, `"schedule": "zb-h1"`, `"deviation": 0.02`, `"name": "adamw"`,
	} {
		require.Contains(t, text, want)
	}
}

// A VGG is chains of operations, each with its tensors.
func TestTorchChains(t *testing.T) {
	c, err := psim.Load("vgg16-cpu-ddp", "parallel.data=2")
	require.NoError(t, err)
	var b bytes.Buffer
	changes, err := export.WriteTorch(&b, c)
	require.NoError(t, err)
	require.Contains(t, changes, "runs without checking gradients for NaN")
	var plan struct {
		Input  []int
		Layers []struct {
			Chain []struct {
				Kind    string
				Tensors int
			}
			Tensors []struct{ Name string }
		}
	}
	readPlan(t, b.String(), &plan)
	require.Equal(t, []int{3, 32, 32}, plan.Input)
	counts := map[string]int{}
	for _, l := range plan.Layers {
		used := 0
		for _, o := range l.Chain {
			counts[o.Kind]++
			used += o.Tensors
		}
		require.Len(t, l.Tensors, used)
	}
	require.Equal(t, map[string]int{
		"convolution": 13, "relu": 15, "max pool": 5, "spread": 1, "flatten": 1, "linear": 3,
	}, counts, "torchvision's VGG16")
}

// The program's Llama has as many parameters as psim's, whether it has biases or norms of queries.
func TestTorchLlama(t *testing.T) {
	for _, c := range []struct {
		base string
		sets []string
	}{
		{"vgg16-cpu-ddp", []string{"model.preset=llama3-8b", "parallel.data=2"}},
		{"vgg16-cpu-ddp", []string{"model.preset=qwen2.5-72b", "parallel.data=2"}},
		{"exec", llama}, {"exec", append(llama, "model.tied=true", "model.attention_bias=true", "model.mlp_bias=true", "model.qk_norm=true")},
	} {
		sets := c.sets
		c, err := psim.Load(c.base, sets...)
		require.NoError(t, err)
		e, err := c.Build()
		require.NoError(t, err)
		var b bytes.Buffer
		_, err = export.WriteTorch(&b, c)
		require.NoError(t, err)
		var plan struct {
			Layers []struct {
				Tensors []struct {
					Name  string
					Shape []int64
				}
			}
		}
		readPlan(t, b.String(), &plan)
		counted, known := int64(0), map[string]bool{}
		for _, l := range plan.Layers {
			for _, tensor := range l.Tensors {
				n := int64(1)
				for _, d := range tensor.Shape {
					n *= d
				}
				if !known[tensor.Name] {
					counted += n
				}
				known[tensor.Name] = true
			}
		}
		require.Equal(t, e.Network.Parameters(), counted, sets)
	}
}

// Replicas of a pipeline sum gradients by psim's buckets: each tensor of a stage is in one.
func TestTorchBuckets(t *testing.T) {
	text, err := write(t, "parallel.data=2", "parallel.bucket=tensor")
	require.NoError(t, err)
	var plan struct {
		Buckets [][][]string
		Overlap bool
	}
	readPlan(t, text, &plan)
	require.Len(t, plan.Buckets, 2)
	require.Equal(t, []string{"h.1.mlp.c_proj.bias"}, plan.Buckets[0][0])
	require.Len(t, plan.Buckets[0], 2+2*12)
	require.Len(t, plan.Buckets[1], 2*12+2+1)
	require.True(t, plan.Overlap)
}

// readPlan reads the plan of a program.
func readPlan(t *testing.T, text string, plan any) {
	_, text, _ = strings.Cut(text, `json.loads("""`)
	text, _, _ = strings.Cut(text, `"""`)
	require.NoError(t, json.Unmarshal([]byte(text), plan))
}

// Python compiles the program, wherever there is a Python.
func TestTorchCompiles(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	text, err := write(t)
	require.NoError(t, err)
	command := exec.Command(python, "-c", "import sys; compile(sys.stdin.read(), 'train.py', 'exec')")
	command.Stdin = bytes.NewBufferString(text)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
}

// checkExchanges wants every message of a pipeline and collectives of replicas in a trace.
func checkExchanges(t *testing.T, run results.Run) {
	require.NotNil(t, run.Trace)
	r, counts := run.Result, map[graph.Kind]int{}
	for _, task := range run.Trace.Graph.Tasks() {
		counts[task.Kind]++
	}
	boundaries := r.Stages*r.VirtualStages - 1
	if r.Schedule == "hanayo" {
		boundaries = r.Stages*r.VirtualStages - r.VirtualStages // where a wave turns, no message is sent
	}
	require.Equal(t, boundaries*r.Microbatches*r.DataParallel, counts[graph.SendForward])
	require.Equal(t, counts[graph.SendForward], counts[graph.SendBackward])
	if r.Devices == 1 || r.DataParallel > 1 && !r.FullySharded { // a pipeline may sum those of a tied table
		require.Equal(t, r.Devices > 1, counts[graph.AllReduce] > 0)
	}
	require.Equal(t, r.FullySharded, counts[graph.AllGather] > 0)
	require.Equal(t, r.FullySharded, counts[graph.ReduceScatter] > 0)
}

// PyTorch trains by the program: pipelines of two orders, one of them unknown to PyTorch, replicas, and one
// process have the same losses, and fully_shard those of one process.
func TestTrainsInPyTorch(t *testing.T) {
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	python := filepath.Join(cmp.Or(os.Getenv("PSIM_PEERS"), filepath.Join(cache, "psim", "peers-python")), "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("no Python with PyTorch: make peers-python installs it")
	}
	if testing.Short() || os.Getenv("PSIM_LONG") == "" {
		t.Skip("starts fourteen processes of PyTorch: make peers-python runs it")
	}
	alone := []string{"schedule.name=ddp", "schedule.stages=1"}
	losses := regexp.MustCompile(`loss [0-9.]+ to [0-9.]+`)
	var options []string
	train := func(sets ...string) string {
		text, err := write(t, sets...)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "train.py")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		all := append([]string{file, "--steps", "2", "--warmup", "1"}, options...)
		out, err := exec.CommandContext(t.Context(), python, all...).CombinedOutput()
		require.NoError(t, err, string(out))
		run, err := results.Load(filepath.Dir(file))
		require.NoError(t, err, "psim compare and plot read what it writes")
		require.Equal(t, results.Measured, run.Result.Kind)
		checkExchanges(t, run)
		return losses.FindString(string(out))
	}
	one := train(alone...)
	require.NotEmpty(t, one)
	require.Equal(t, one, train())
	require.Equal(t, one, train("parallel.data=2"), "two replicas of a pipeline")
	tied := append(llama, "model.tied=true")
	require.Equal(t, train(append(alone, tied...)...), train(append(tied, "schedule.name=zb-h1")...))

	options = []string{"--precision", "bf16"}
	for _, sets := range [][]string{{"schedule.name=zb-h1"}, append(alone, "model.tied=false", "parallel.data=2", "parallel.zero=3")} {
		narrow := train(sets...)
		require.NotEqual(t, one, narrow)
		require.InDelta(t, lastOf(t, one), lastOf(t, narrow), 0.02, "sums of bf16's products")
	}
}

// A configuration in bf16 computes so on GPUs, and says that CPUs do not.
func TestTorchPrecision(t *testing.T) {
	for precision, want := range map[string]string{"fp32": "fp32", "bf16": "bf16", "fp16": "fp32"} {
		c, err := psim.Load("exec", "train.precision="+precision)
		require.NoError(t, err)
		var b strings.Builder
		changes, err := export.WriteTorch(&b, c)
		require.NoError(t, err)
		require.Contains(t, b.String(), `"precision": "`+want+`"`)
		if precision == "bf16" {
			require.Contains(t, changes, "runs in fp32 on CPUs, and in bf16 on GPUs")
		}
	}
}

// lastOf returns the second loss of a line.
func lastOf(t *testing.T, line string) float64 {
	_, text, _ := strings.Cut(line, " to ")
	loss, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return loss
}
