// Package programs compiles the programs of a pipeline stage with gomlx and
// runs them on tensors that stay on a device.
//
// A Stage is made of consecutive layers of costmodel/network and a number of
// samples. It has four passes, each one compiled program that every step uses
// again:
//
//	Forward         F: parameters, input → output, saved tensors
//	Backward        B: parameters, saved, output gradient → input gradient, parameter gradients
//	InputGradient   I: the first half of B, with what is left to do for W
//	WeightGradient  W: the second half; it repeats nothing of I
//
// The last stage returns the sum of the losses of its tokens (images) as its
// output. Its output gradient is a scalar: 1/n, with n the tokens of the whole
// batch, makes the gradients of microbatches of any size add up to those of the
// mean; a backward adds them to the sum of the microbatches before. Optimizer
// steps are programs as well (Updates).
//
// Dropout's masks are made by the host and given to the programs (Draw). To
// evaluate a network without dropout, compile that of an models.Model without.
//
// # Tensors and memory
//
// A Tensor counts its holders and is freed by the last one. What a call returns
// is held by the caller, who releases it; what a call keeps of its arguments
// (an input that the backward needs) it holds itself. Saved and Work are used up
// by the call that takes them, and their memory is given back to the programs.
// A Device counts the bytes of its tensors: those that a pass returns, from when
// it begins, beside
// those that it uses up, but sums and optimizer steps in place. Temporaries
// within a program are not counted.
//
// A microbatch of n sequences of s tokens is a matrix of n·s rows. Images are
// rows × columns × channels on the device, parameters as in costmodel/network.
// Saved tensors are those of training.Options.Kept, to the byte: a tensor that
// two layers list is one, and so is one that is also the stage's input or
// output, or the gradient that it was given.
package programs
