package arch

// projection names the weight [out, in] of nn.Linear, with its bias if it has one. Sharded
// ones are cut along out.
func projection(name string, in, out int, bias, sharded bool) []Tensor {
	params := []Tensor{{Name: name + ".weight", Shape: Shape{out, in}, Sharded: sharded}}
	if bias {
		params = append(params, Tensor{Name: name + ".bias", Shape: Shape{out}, Sharded: sharded})
	}
	return params
}

// projected names one that tensor parallelism cuts along in: every rank has the whole bias.
func projected(name string, in, out int, bias bool) []Tensor {
	params := []Tensor{{Name: name + ".weight", Shape: Shape{out, in}, Sharded: true, Axis: 1}}
	if bias {
		params = append(params, Tensor{Name: name + ".bias", Shape: Shape{out}})
	}
	return params
}

// gain names that of an RMSNorm over n features.
func gain(name string, n int) Tensor {
	return Tensor{Name: name + ".weight", Shape: Shape{n}, Norm: true}
}
