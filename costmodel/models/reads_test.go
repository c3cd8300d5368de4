package models

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"psim/costmodel/network"
)

func TestTraffic(t *testing.T) {
	fc := (Model{}).linear("fc", matmul{10, 3, 5}, true)
	assert.EqualValues(t, 2*(30+50)+15, fc.Traffic(network.Forward, 2))
	assert.EqualValues(t, 2*(30+50)+15, fc.Traffic(network.InputGradient, 2))
	assert.EqualValues(t, 2*(30+50)+15+2*50+5, fc.Traffic(network.WeightGradient, 2), "with the bias gradient")
	assert.Zero(t, fc.Traffic(network.Forward, 0))

	scores := network.Op{Class: network.Product, Count: 2, Rows: 4, Inner: 3, Cols: 4}
	assert.EqualValues(t, 5*(24+24+32), scores.Traffic(network.Forward, 5))
	assert.EqualValues(t, 2*5*(24+24+32), scores.Traffic(network.InputGradient, 5))
	assert.Zero(t, scores.Traffic(network.WeightGradient, 5))

	assert.EqualValues(t, 7*2*60, (Model{}).activation("gelu", 6, 10).Traffic(network.Forward, 7))
	assert.Zero(t, (Model{}).activation("gelu", 6, 10).FLOPs(network.Forward))
	wte := lookup("wte", network.Dims{100, 10}, 6, 2)
	assert.EqualValues(t, 7*3*60+1000, wte.Traffic(network.WeightGradient, 7))
	assert.Zero(t, wte.Traffic(network.InputGradient, 7))
}
