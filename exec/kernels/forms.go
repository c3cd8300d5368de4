package kernels

import "github.com/gomlx/gomlx/core/graph"

// forms says where a backend's form of an operation is not that of the Go backend: where BenchmarkKernels
// is faster with it.
type forms struct {
	// broadcast repeats numbers by broadcasts, which a compiler fuses into loops, not by copies and
	// products; of layer norm, for example.
	broadcast bool
	// logistic is the backend's own function, also in the backward of GELU, not a softmax.
	logistic bool
	// entropy has the logarithm of a sum of exponentials, and compares classes with the target, instead of
	// two softmaxes and a scatter.
	entropy bool
	// pieces sums rows and columns of layer norm by adding pieces of them, number by number, before a product
	// with ones: a compiler that puts what it multiplies into the product's loop goes one number at a time.
	pieces bool
	// convolution is the backend's own or, for few pixels, a product with all nine taps; the weight's gradient
	// is one product.
	convolution bool
}

// formsOf has the forms by the backend's name. The forms that were tried are in forms_test.go.
var formsOf = map[string]forms{
	"xla": {broadcast: true, logistic: true, entropy: true, pieces: true, convolution: true},
}

// formOf returns the forms of the backend that a node is built for.
func formOf(x *graph.Node) forms { return formsOf[x.Graph().Backend().Name()] }
