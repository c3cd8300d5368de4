package models

import (
	"psim/costmodel/network"
)

// projection names the weight [out, in] of nn.Linear, with its bias if it has one. Sharded
// ones are cut along out.
func projection(name string, in, out int, bias, sharded bool) []network.Tensor {
	params := []network.Tensor{{Name: name + ".weight", Shape: network.Dims{out, in}, Sharded: sharded}}
	if bias {
		params = append(params, network.Tensor{Name: name + ".bias", Shape: network.Dims{out}, Sharded: sharded})
	}
	return params
}

// projected names one that tensor parallelism cuts along in: every rank has the whole bias.
func projected(name string, in, out int, bias bool) []network.Tensor {
	params := []network.Tensor{{Name: name + ".weight", Shape: network.Dims{out, in}, Sharded: true, Axis: 1}}
	if bias {
		params = append(params, network.Tensor{Name: name + ".bias", Shape: network.Dims{out}})
	}
	return params
}

// gain names that of an RMSNorm over n features.
func gain(name string, n int) network.Tensor {
	return network.Tensor{Name: name + ".weight", Shape: network.Dims{n}, Norm: true}
}
