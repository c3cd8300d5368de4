package launch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
)

// TestPatch: of the user's script only what has to be another is, at the variable where there is one, and what the script
// decides by itself stays its own.
func TestPatch(t *testing.T) {
	list := files(t, "train.log", "run.sh", "common.sh")
	from := []launch.Argument{
		{"num_layers", "32"}, {"tensor_model_parallel_size", "2"}, {"pipeline_model_parallel_size", "4"},
		{"num_virtual_stages_per_pipeline_rank", "2"}, {"context_parallel_size", "1"}, {"sequence_parallel", "True"},
		{"recompute_granularity", "selective"},
	}
	to := []launch.Argument{
		{"num_layers", "32"}, {"tensor_model_parallel_size", "1"}, {"pipeline_model_parallel_size", "2"},
		{"num_virtual_stages_per_pipeline_rank", "4"}, {"context_parallel_size", "2"},
	}
	p, err := launch.NewPatch(list, launch.Options{}, from, to)
	require.NoError(t, err)
	require.Equal(t, 3, p.Lines)
	require.Len(t, p.Files, 2)
	require.Equal(t, `--- run.sh
+++ run.sh
@@ -4,7 +4,7 @@
 set -euo pipefail
 export CUDA_DEVICE_MAX_CONNECTIONS=1
 CONFIG=${1:-8b}
-TP=${TP:-2}
+TP=${TP:-1}
 GPUS=8
 WORLD=$((GPUS * 8))
 source common.sh
@@ -19,7 +19,7 @@
   --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0.0 --vocab-size 128256)
 
 parallel() {
-  PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4"
+  PARALLEL="--context-parallel-size 2 --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4"
 }
 parallel
 if [[ $TP -gt 1 ]]; then
--- common.sh
+++ common.sh
@@ -1,2 +1,2 @@
 TRAIN="--micro-batch-size 1 --global-batch-size 512 --bf16 --use-distributed-optimizer --overlap-grad-reduce \
-  --overlap-param-gather --lr 3e-4 --train-iters 1000 --recompute-activations --log-interval 10"
+  --overlap-param-gather --lr 3e-4 --train-iters 1000 --log-interval 10"
`, p.Text)
}

// TestPatchKinds: values and switches are changed, put and left out in the ways in which scripts give them.
func TestPatchKinds(t *testing.T) {
	tensor := func(n string) []launch.Argument { return []launch.Argument{{"tensor_model_parallel_size", n}} }
	bf16 := []launch.Argument{{"bf16", "True"}}
	start := "python x.py " + least
	for name, c := range map[string]struct {
		script, want string
		from, to     []launch.Argument
	}{
		"joined":      {start + " --tensor-model-parallel-size=2\n", start + " --tensor-model-parallel-size=4\n", tensor("2"), tensor("4")},
		"underscores": {start + " --tensor_model_parallel_size 2\n", start + " --tensor_model_parallel_size 4\n", tensor("2"), tensor("4")},
		"variable":    {"TP=2 # mine\n" + start + " --tensor-model-parallel-size $TP\n", "TP=4 # mine\n" + start + " --tensor-model-parallel-size $TP\n", tensor("2"), tensor("4")},
		"default": {"TP=${1:-2}\n" + start + " --tensor-model-parallel-size ${TP}\n", "TP=${1:-4}\n" + start +
			" --tensor-model-parallel-size ${TP}\n", tensor("2"), tensor("4")},
		"twice": {"TP=2\n" + start + " --tensor-model-parallel-size $TP --context-parallel-size $TP\n", "TP=2\n" + start +
			" --tensor-model-parallel-size 4 --context-parallel-size $TP\n", tensor("2"), tensor("4")},
		"put":          {"A=\"--seed 1 --micro-batch-size 1\"\n" + start + " $A", "A=\"--seed 1 --tensor-model-parallel-size 4 --micro-batch-size 1\"\n" + start + " $A", nil, tensor("4")},
		"switch":       {start + " --bf16 \\\n  --seed 1\n", start + " \\\n  --seed 1\n", bf16, nil},
		"line":         {start + " \\\n  --bf16 \\\n  --seed 1\n", start + " \\\n  --seed 1\n", bf16, nil},
		"left out":     {"# --bf16\n" + start + " --tensor-model-parallel-size 2 --bf16\n", "# --bf16\n" + start + " --bf16\n", tensor("2"), nil},
		"other models": {"case a in\nb) TP=8;;\na) TP=2;;\nesac\n" + start + " --tensor-model-parallel-size $TP\n", "case a in\nb) TP=8;;\na) TP=2;;\nesac\n" + start + " --tensor-model-parallel-size 4\n", tensor("2"), tensor("4")},
	} {
		p, err := launch.NewPatch([]launch.Input{{Label: "run.sh", Data: []byte(c.script)}}, launch.Options{}, c.from, c.to)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(p.Files[0].Data), name)
		require.Equal(t, 1, strings.Count(p.Text, "\n-"), name)
	}
	many := strings.Repeat("X=2\n: --tensor-model-parallel-size $X\n", 1500) + start + " --tensor-model-parallel-size $TP\n"
	_, err := launch.NewPatch([]launch.Input{{Label: "run.sh", Data: []byte("TP=2\n" + many)}}, launch.Options{}, tensor("2"), tensor("4"))
	require.EqualError(t, err, "run.sh: no change of one flag or variable makes it --tensor-model-parallel-size 4", "not all are tried")
	_, err = launch.NewPatch([]launch.Input{{Label: "run.sh", Data: []byte(strings.Repeat("#\n", 40_000) + start)}}, launch.Options{}, nil, nil)
	require.EqualError(t, err, "run.sh: has 78 kB; psim changes scripts of at most 64 kB")
	_, err = launch.NewPatch([]launch.Input{{Label: "run.sh", Data: []byte("T=--tensor-model-parallel-size\n" + start + " $T 2\n")}},
		launch.Options{}, tensor("2"), tensor("4"))
	require.EqualError(t, err, "run.sh: no change of one flag or variable makes it --tensor-model-parallel-size 4")
	_, err = launch.NewPatch(files(t, "train.log"), launch.Options{}, tensor("2"), tensor("4"))
	require.ErrorIs(t, err, launch.ErrNoScript)
}
