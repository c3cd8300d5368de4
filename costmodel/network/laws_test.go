package network

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func drawProduct(t *rapid.T) Op {
	size := rapid.Int64Range(1, 50)
	return Op{
		Class: Product, Count: size.Draw(t, "count"), Rows: size.Draw(t, "rows"),
		Inner: size.Draw(t, "inner"), Cols: size.Draw(t, "cols"),
		Weight: rapid.Bool().Draw(t, "weight"),
	}
}

func TestProductLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op := drawProduct(t)
		forward := op.FLOPs(Forward)
		assert.EqualValues(t, 2*op.Count*op.Rows*op.Inner*op.Cols, forward)
		assert.Equal(t, 2*forward, op.FLOPs(InputGradient)+op.FLOPs(WeightGradient))
		assert.Equal(t, 2*op.Traffic(Forward, 3), op.Traffic(InputGradient, 3)+op.Traffic(WeightGradient, 3))
		if op.Weight {
			assert.Equal(t, forward, op.FLOPs(WeightGradient))
		} else {
			assert.Zero(t, op.FLOPs(WeightGradient))
		}
		op.NoInputGradient = true
		assert.Zero(t, op.FLOPs(InputGradient))
		assert.Zero(t, op.Traffic(InputGradient, 3))
	})
}

// Two microbatches of b samples read a weight twice, one of 2b reads it once.
func TestWeightIsReadOncePerMicrobatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		op, b := drawProduct(t), rapid.Int64Range(1, 9).Draw(t, "b")
		saved := 2*op.Traffic(Forward, b) - op.Traffic(Forward, 2*b)
		if op.Weight {
			assert.Equal(t, op.Count*op.Inner*op.Cols, saved)
		} else {
			assert.Zero(t, saved)
		}
	})
}

func TestNames(t *testing.T) {
	assert.Equal(t, "FIW", Forward.String()+InputGradient.String()+WeightGradient.String())
	assert.Equal(t, "Pass(7)", Pass(7).String())
	assert.Equal(t, []string{"product", "elementwise", "lookup", "exchange"},
		[]string{Product.String(), Elementwise.String(), Lookup.String(), Exchange.String()})
	assert.Equal(t, []string{"F→I", "F→W", "I→W", "Lifetime(9)"},
		[]string{ForwardToInput.String(), ForwardToWeight.String(), InputToWeight.String(), Lifetime(9).String()})
}
