package memory

import (
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// keptState is the bytes that a parameter takes from step to step, with the copies of its gradient
// that a rank makes for its share of the optimizer.
type keptState struct {
	training.State
	copies int64
}

// keptStateOf returns the state of a parameter. FSDP casts weights as it gathers them, so it has
// no 16-bit shards (torch.distributed.fsdp, MixedPrecision). DeepSpeed's BF16_Optimizer adds
// 16-bit gradients to fp32 ones, and shards neither of them; its fp16 optimizers flatten the
// 16-bit gradients of their share, and convert them to fp32 (stage_1_and_2.py, step).
func keptStateOf(staged *stages.Staged) keptState {
	k := keptState{State: staged.PerParameter}
	switch process := staged.Process; {
	case k.Parameter != 2 || !staged.Training.Masters():
	case process.FP32Shards && staged.Gathers():
		k.Parameter, k.Gradient = 0, 4
	case process.GradientCopies && (k.Gradient == 4 || staged.Training.Base() == "bf16"):
		k.Gradient = 2 + 4
	case process.GradientCopies:
		k.copies = 2 + 4
	}
	return k
}

// Reserve adds the allocator's reserve to the memory of a simulated trace: it holds more than the
// tensors that come and go.
func Reserve(staged *stages.Staged, t *graph.Trace) {
	if staged.Process.Allocator != 0 {
		t.Held = staged.Process.Reserve
	}
}

// addReserve adds the allocator's reserve to the peaks of all ranks.
func (l *Ledger) addReserve(peak, persistent []Breakdown) []Breakdown {
	for r := range peak {
		peak[r].Context += l.staged.Process.Reserve(peak[r].Sum() - persistent[r].Sum())
	}
	return peak
}
