package published

import (
	_ "embed"
	"fmt"
	"strings"
)

// vtrainMachine holds the [machine] that was fitted to every second row; see fits.
//
//go:embed testdata/vtrain_machine.toml
var vtrainMachine string

// vtrainSingleNode returns the iteration times that vTrain was validated with, on up
// to eight GPUs.
func vtrainSingleNode() Table {
	return Table{
		Name: "vtrain-2024-single-node", Title: "iteration times of GPTs on up to 8 A100", Figure: "vtrain",
		Paper: "Bang et al. 2024, vTrain, MICRO 2024, arXiv 2312.12391", Place: "the artifact's data/ground_truth_single.csv, half of its rows",
		Fitted: "four constants of the machine (launch costs of the host, the rate of products and of those of unaligned rows), from every second row; errors are of the others; links as NCCL was measured on this machine, the device's launch from korthikanti-2022-table-5",
		Claim:  "vTrain itself: 8.37 % mean over all 1,440 rows of the file; a closed form with eight constants, fitted to one half: 10.7 % on the other",
		Note: "Small models are bound by their hosts, which take 50 µs for an operation of Megatron-DeepSpeed. " +
			"On single devices the vocabulary of 50257 is taken as it is, and with tensor parallelism filled up to a multiple of 128 for every device, as Megatron does it: which of both is not published, and the heads' times say so. " +
			"Products are taken to compute beside writing (serial_tiles = false), and come to 298 TFLOP/s, more than any does alone: for networks so narrow what is priced beside them is too much. " +
			"So this machine contradicts the tiles of the catalog's A100, with which the error would be 6.8 %; some eight forms of the fit were compared. " +
			"The head of 50257 runs at half the rate, because its rows are not aligned, and its loss goes eight times over logits in fp32. " +
			"With tensor parallelism over 8, microbatches of one sample take longer than those of two: a device has two of the 16 heads, and Megatron's fused softmax takes four matrices at a time. " +
			"Not explained: hosts differ by up to a third between degrees of tensor parallelism (h=2048 with t=4 is faster than h=1024, and all of t=8 is slower), " +
			"and products of 16 matrices of attention (t=2 with 2 samples, t=4 with 4) take longer than those of 8 or 32.",
		Rows: func() ([]Row, error) {
			return rowPer(records("vtrain_single_node.csv"), func(r record) (Row, error) {
				row, err := r.iteration(vtrainMachine)
				row.Used = r.odd()
				return row, err
			})
		},
	}
}

func (r record) iteration(machine string) (Row, error) {
	t, d, p, micro := r.count("tp"), r.count("dp"), r.count("pp"), r.count("micro_batch")
	s, err := simulate(r.vtrainConfig() + machine)
	return Row{
		Label: fmt.Sprintf("h=%d layers=%d batch=%d/%d t=%d d=%d p=%d", r.count("hidden"), r.count("layers"),
			r.count("global_batch"), micro, t, d, p), Unit: "ms",
		Published: r.number("iter_ms"), Predicted: s.Summary.StepTime.Seconds() * 1e3,
	}, err
}

// vtrainConfig returns a row without its machine. Megatron gives every stage as many
// blocks, and fills the vocabulary up to a multiple of 128 for every device of a
// tensor-parallel group. On single devices it seems not to have been filled up: the
// head's products take twice as long there.
func (r record) vtrainConfig() string {
	t, p := r.count("tp"), r.count("pp")
	vocab := 50257
	if t > 1 {
		vocab = (vocab + 128*t - 1) / (128 * t) * 128 * t
	}
	return fmt.Sprintf(`
[schedule]
name = "1f1b"
stages = %d
partition = %s
[model]
family = "gpt"
layers = %d
hidden = %d
heads = %d
vocab = %d
sequence_length = %d
dropout = 0.1
kernels = "megatron"
code = "megatron-2021"
[batch]
global = %d
micro = %d
[parallel]
tensor = %d
tensor_overlap = false
data = %d
overlap = false
bucket = "1TB"
[train]
precision = "fp16"
optimizer = "adam"
recompute = "full"
`, p, equalBlocks(r.count("layers"), p), r.count("layers"), r.count("hidden"), r.count("heads"), vocab, r.count("seq"),
		r.count("global_batch"), r.count("micro_batch"), t, r.count("dp"))
}

// equalBlocks returns the partition of a GPT that gives every stage as many blocks:
// the first has the embedding as well, the last the final norm and the head.
func equalBlocks(blocks, stages int) string {
	sizes := make([]string, stages)
	for s := range sizes {
		n := blocks / stages
		if s == 0 {
			n++
		}
		if s == stages-1 {
			n += 2
		}
		sizes[s] = fmt.Sprint(n)
	}
	return "[" + strings.Join(sizes, ", ") + "]"
}
