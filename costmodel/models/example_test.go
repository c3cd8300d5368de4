package models_test

import (
	"fmt"

	"psim/costmodel/models"
	"psim/costmodel/network"
)

func Example() {
	n, err := models.Model{Preset: "gpt2", SequenceLength: 128}.Network()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(n.Name, n.Parameters(), "parameters in", len(n.ParameterTensors()), "tensors")
	perToken := float64(n.FLOPs(network.Forward)) / float64(n.TokensPerSample)
	fmt.Printf("forward: %.1f MFLOP per token\n", perToken/1e6)

	block := n.Layers[1]
	for _, lt := range []network.Lifetime{network.ForwardToInput, network.ForwardToWeight, network.InputToWeight} {
		fmt.Printf("%s %s: %d bytes per sample\n", block.Name, lt, network.BufferBytes(block.Buffers, 4, 1)[lt])
	}
	// Output:
	// gpt2 124439808 parameters in 148 tensors
	// forward: 251.8 MFLOP per token
	// h.0 F→I: 4325376 bytes per sample
	// h.0 F→W: 2752512 bytes per sample
	// h.0 I→W: 3538944 bytes per sample
}
