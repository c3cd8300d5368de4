package training

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
		{"fp32", "lion", State{4, 4, 4}, 4},
		{"bf16", "lion", State{2, 2, 8}, 2},
		{"bf16", "adamw-8bit", State{2, 2, 4}, 2},
		{"bf16", "muon", State{2, 2, 4}, 2},
		{"fp32", "adafactor", State{4, 4, 0}, 4},
	} {
		train := Options{Precision: c.precision, Optimizer: c.optimizer}
		assert.NoError(t, train.Validate())
		assert.Equal(t, c.want, train.State(), "%+v", train)
		assert.Equal(t, c.activation, train.ActivationElement())
	}
}
