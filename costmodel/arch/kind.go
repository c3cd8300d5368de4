package arch

import (
	"fmt"
)

// Kind says how the operations of a layer are put together. With Ops, Params
// and Input it is what an executor needs to know.
type Kind uint8

const (
	KindUnknown   Kind = iota // not described well enough to be executed: llama
	KindChain                 // each of Ops takes the result of the one before; without Ops the input is passed on, in the shape of Output
	KindEmbedding             // the sum of rows of two tables, by token and by position
	KindGPTBlock              // x + attention(norm(x)), then x + MLP(norm(x))
)

// String names the kind in lower case.
func (k Kind) String() string {
	names := []string{"unknown", "chain", "embedding", "gpt block"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Function is what an Elementwise operation in a KindChain computes.
type Function uint8

const (
	NoFunction   Function = iota // not described
	ReLU                         // max(x, 0)
	MaxPool                      // the largest of 2×2 pixels
	Spread                       // one pixel repeated over the output's square
	LayerNorm                    // of the last axis, with gain and bias
	CrossEntropy                 // of logits and a target, at the network's end
)

// String names the function in lower case.
func (f Function) String() string {
	names := []string{"none", "relu", "max pool", "spread", "layer norm", "cross entropy"}
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("Function(%d)", uint8(f))
}
