package network_test

import (
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// A linear layer from 512 to 2,048 features over 16 tokens, whole and on one of two devices
// that divide its weight.
func Example() {
	linear := network.Op{
		Name: "linear", Class: network.Product, Weight: true, Count: 1, Rows: 16, Inner: 512, Cols: 2048,
	}
	n := network.Network{Layers: []network.Layer{{
		Name: "linear", Kind: network.KindChain, Input: network.Dims{16, 512}, Output: network.Dims{16, 2048},
		Params: []network.Tensor{{Name: "linear.weight", Shape: network.Dims{2048, 512}, Sharded: true}},
		Ops:    []network.Op{linear.Divided()},
		Buffers: []network.Buffer{
			{Name: "linear.input", Shape: network.Dims{16, 512}, Lifetime: network.ForwardToWeight},
		},
	}}}
	for _, n := range []network.Network{n, n.Divided(group.Group{Devices: 2})} {
		l := n.Layers[0]
		fmt.Println(n.Parameters(), "parameters, output", l.Output)
		for p := range network.WeightGradient + 1 {
			fmt.Printf("%s: %.0f FLOPs, %d elements moved\n", p, l.FLOPs(p), l.Traffic(p, 1))
		}
	}
	// Output:
	// 1048576 parameters, output [16 2048]
	// F: 33554432 FLOPs, 1089536 elements moved
	// I: 33554432 FLOPs, 1089536 elements moved
	// W: 33554432 FLOPs, 1089536 elements moved
	// 524288 parameters, output [16 1024]
	// F: 16777216 FLOPs, 548864 elements moved
	// I: 16777216 FLOPs, 548864 elements moved
	// W: 16777216 FLOPs, 548864 elements moved
}
