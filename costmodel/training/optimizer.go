package training

import (
	"fmt"
	"strings"

	"psim/costmodel/network"
)

// Optimizers other than sgd, sgd-momentum, adam and adamw.
const (
	// OptimizerAdamW8Bit has both moments in 8 bits, with a scale in fp32 for every 256 (Dettmers et al. 2022,
	// "8-bit Optimizers via Block-wise Quantization"; bitsandbytes).
	OptimizerAdamW8Bit = "adamw-8bit"
	// OptimizerPaged8Bit holds these moments in memory of the host, from which they come page by page.
	OptimizerPaged8Bit = "paged-adamw-8bit"
	// OptimizerAdafactor has sums over rows and over columns of squares, and no first moment (Shazeer and Stern
	// 2018).
	OptimizerAdafactor = "adafactor"
	OptimizerLion      = "lion" // one moment (Chen et al. 2023)
	// OptimizerMuon has one moment of every matrix of a block, which five steps of Newton–Schulz make orthogonal
	// (Jordan et al. 2024). Everything else has AdamW.
	OptimizerMuon = "muon"
)

// The values of Options.MasterWeights.
const (
	MastersFP32 = "fp32"
	MastersNone = "none"
)

// Optimizers lists the values of Options.Optimizer.
func Optimizers() []string {
	return append(executedOptimizers(), OptimizerAdamW8Bit, OptimizerPaged8Bit, OptimizerAdafactor, OptimizerLion,
		OptimizerMuon)
}

// executedOptimizers lists those that an execution supports.
func executedOptimizers() []string { return []string{"sgd", "sgd-momentum", "adam", "adamw"} }

// Masters reports whether weights of 16 bits have fp32 ones besides, which the optimizer changes.
func (t Options) Masters() bool {
	return t.defaults().Precision != "fp32" && t.MasterWeights != MastersNone
}

// In16Bits reports whether weights and gradients may have the 16 bits of bf16 alone.
func (t Options) In16Bits() bool {
	return t.defaults().Precision == "bf16" && t.defaults().Gradients == "bf16"
}

// Paged reports whether the optimizer's moments are in the host's memory.
func (t Options) Paged() bool { return t.Optimizer == OptimizerPaged8Bit }

// HalvesMoments reports whether the optimizer's moments may be held in 16 bits.
func (t Options) HalvesMoments() bool { return !t.ByTensor() && t.Optimizer != "sgd" }

// ByTensor reports whether the bytes of the optimizer's state depend on the shape of a tensor, so that they
// are TensorState's and not in State.
func (t Options) ByTensor() bool {
	switch t.Optimizer {
	case OptimizerAdamW8Bit, OptimizerPaged8Bit, OptimizerAdafactor, OptimizerMuon:
		return true
	}
	return false
}

// Both are constants of bitsandbytes (optim/optimizer.py: min_8bit_size and blocksize).
const (
	leastIn8Bits = 4096
	scaledIn8Bit = 256
)

// TensorState returns the bytes of an optimizer's state for a tensor of a layer, without an fp32 weight.
func (t Options) TensorState(l network.Layer, p network.Tensor) int64 {
	n := p.Shape.Elements()
	switch t.Optimizer {
	case OptimizerAdamW8Bit, OptimizerPaged8Bit:
		if n < leastIn8Bits {
			return 2 * 4 * n
		}
		return 2 * (n + 4*((n+scaledIn8Bit-1)/scaledIn8Bit))
	case OptimizerAdafactor:
		if d := len(p.Shape); d > 1 {
			return 4 * (n/int64(p.Shape[d-1]) + n/int64(p.Shape[d-2]))
		}
		return 4 * n
	case OptimizerMuon:
		if isMatrix(l, p) {
			return 4 * n
		}
		return 2 * 4 * n
	}
	return 0
}

// isMatrix reports whether Muon updates a tensor: a matrix of a block.
func isMatrix(l network.Layer, p network.Tensor) bool { return l.IsBlock() && len(p.Shape) == 2 }

// newtonSchulz is the number of steps of Muon.
const newtonSchulz = 5

// UpdateFLOPs returns the FLOPs of an optimizer's products for a tensor of a layer, and their number: with m the
// shorter side of an m×n matrix, every step of Newton–Schulz has one of m×n by n×m, one of m×m by m×m, and one of
// m×m by m×n.
func (t Options) UpdateFLOPs(l network.Layer, p network.Tensor) (flops float64, products int) {
	if t.Optimizer != OptimizerMuon || !isMatrix(l, p) {
		return 0, 0
	}
	m, n := float64(min(p.Shape[0], p.Shape[1])), float64(max(p.Shape[0], p.Shape[1]))
	return newtonSchulz * (4*m*m*n + 2*m*m*m), newtonSchulz * 3
}

// UpdateReads is the number of times that an update reads a gradient besides the first: Adafactor sums its squares
// by rows and by columns.
func (t Options) UpdateReads() int64 {
	if t.Optimizer == OptimizerAdafactor {
		return 2
	}
	return 0
}

// checkOptimizer refuses keys that do not go with the optimizer.
func (t Options) checkOptimizer() error {
	switch {
	case t.Moments == "bf16" && !t.HalvesMoments():
		return fmt.Errorf("moments = \"bf16\": optimizer = %q has no moments in 16 bits; remove moments", t.Optimizer)
	case t.MasterWeights == MastersNone && t.defaults().Precision == "fp32":
		return fmt.Errorf("master_weights = %q: precision = \"fp32\" has one weight; set precision = \"bf16\"",
			MastersNone)
	case t.MasterWeights == MastersNone && (t.Narrow() || t.defaults().Gradients == "fp32"):
		return fmt.Errorf("master_weights = %q: goes with weights and gradients in 16 bits; set precision = \"bf16\" "+
			"and remove gradients", MastersNone)
	case t.MasterWeights == MastersNone && t.Precision == "fp16":
		return fmt.Errorf("master_weights = %q: fp16 has too few bits for updates; set precision = \"bf16\"",
			MastersNone)
	case t.UpdateKernels == UpdateForeach && !t.Foreach():
		return fmt.Errorf("update_kernels = %q: is modelled for adam and adamw, not for optimizer = %q; remove it",
			UpdateForeach, t.Optimizer)
	case t.UpdateIn == UpdateInBackward && t.Clip:
		return fmt.Errorf("update_in = %q: clip needs all gradients at once; set clip = false", t.UpdateIn)
	}
	return nil
}

// The values of Options.UpdateIn.
const (
	UpdateInStep     = "step"
	UpdateInBackward = "backward"
)

// The values of Options.UpdateKernels.
const (
	UpdateFused   = "fused"
	UpdateForeach = "foreach"
)

// Foreach reports whether every step of the update is a kernel over all tensors.
func (t Options) Foreach() bool {
	o := t.defaults().Optimizer
	return t.UpdateKernels == UpdateForeach && (o == "adam" || o == "adamw")
}

// ForeachBytes returns the bytes that an update in many kernels moves for a parameter beyond those of one kernel, given
// the bytes of the weight that it changes and of its gradient (torch/optim/adam.py, _multi_tensor_adam). It decays the
// weight, decays the second moment and adds to it, makes the root of the second moment, divides it and adds epsilon to
// it, and changes the weight: the weight 4 times instead of 2, the first moment 3, the second 5 and the gradient 2
// instead of 2, 2 and 1, and the root 6 times.
func (t Options) ForeachBytes(weight, gradient int64) int64 {
	if !t.Foreach() {
		return 0
	}
	moment := t.RootBytes()
	return 2*weight + (1+3+6)*moment + gradient
}

// RootBytes returns the bytes for a parameter of the roots that an update in many kernels holds meanwhile.
func (t Options) RootBytes() int64 {
	switch {
	case !t.Foreach():
		return 0
	case t.Moments == "bf16":
		return 2
	}
	return 4
}

// optimizerText describes the optimizers.
func optimizerText() string {
	return "how parameters are updated. " + strings.Join([]string{
		"adamw-8bit: moments in 8 bits, with a scale for 256 (bitsandbytes)",
		"paged-adamw-8bit: the same in the host's memory, over machine.host_link",
		"adafactor: sums by rows and columns, one number a row or column",
		"lion: one moment",
		"muon: five steps of Newton–Schulz on the matrices of blocks, with one moment, and AdamW for the rest; " +
			"ZeRO 1 and 2 then give whole matrices to replicas, which all-reduce gradients and broadcast " +
			"parameters; a tensor group works on its slices",
	}, ". ")
}
