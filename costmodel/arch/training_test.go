package arch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestState(t *testing.T) {
	for _, c := range []struct {
		precision, optimizer string
		want                 State
		activation           int64
	}{
		{"", "", State{4, 4, 8}, 4},
		{"fp32", "sgd", State{4, 4, 0}, 4},
		{"fp32", "sgd-momentum", State{4, 4, 4}, 4},
		{"fp32", "adam", State{4, 4, 8}, 4},
		{"fp16", "sgd", State{2, 2, 4}, 2},
		{"bf16", "sgd-momentum", State{2, 2, 8}, 2},
		{"bf16", "adam", State{2, 2, 12}, 2},
		{"fp16", "", State{2, 2, 12}, 2},
	} {
		train := Training{Precision: c.precision, Optimizer: c.optimizer}
		assert.NoError(t, train.Validate())
		assert.Equal(t, c.want, train.State(), "%+v", train)
		assert.Equal(t, c.activation, train.ActivationElement())
	}
}

func TestTrainingValidate(t *testing.T) {
	for want, train := range map[string]Training{
		`precision = "fp8": must be one of fp32, fp16, bf16`:                      {Precision: "fp8"},
		`optimizer = "lion": must be one of sgd, sgd-momentum, adam, adamw`:       {Optimizer: "lion"},
		`recompute = "everything": must be one of none, selective, full`:          {Recompute: "everything"},
		`precision = "FP16": must be one of fp32, fp16, bf16; did you mean fp16?`: {Precision: "FP16", Optimizer: "x"},
		`optimizer = "momentum": must be one of sgd, sgd-momentum, adam, adamw`:   {Optimizer: "momentum"},
	} {
		assert.EqualError(t, train.Validate(), want)
	}
}

func TestRepeated(t *testing.T) {
	n := preset(t, "llama2-7b")
	block, head := n.Layers[1], n.Layers[len(n.Layers)-1]
	assert.Empty(t, Training{}.Repeated(block))
	var names []string
	for _, op := range (Training{Recompute: "selective"}).Repeated(block) {
		names = append(names, op.Name)
	}
	assert.Equal(t, []string{"self_attn.scores", "self_attn.softmax", "self_attn.context"}, names)
	full := Training{Recompute: "full"}
	assert.Equal(t, block.Ops, full.Repeated(block))
	assert.Empty(t, full.Repeated(head), "the head is not repeatable")
	assert.Len(t, full.Kept(head), 3)
}
