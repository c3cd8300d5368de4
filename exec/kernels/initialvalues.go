package kernels

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// InitializeTensors makes float32 parameters. A tensor depends only on the seed, its name and
// its shape, so that every split of a network and every copy begins with the same values.
func InitializeTensors(d *backend.LocalDevice, tensors []network.Tensor, seed uint64) (backend.Tensors, error) {
	return eachTensor(tensors, func(t network.Tensor) (*backend.DeviceTensor, error) {
		return backend.Upload(d, Initial[float32](seed, t), t.Shape...)
	})
}

// Zeros makes float32 tensors of zeros.
func Zeros(d *backend.LocalDevice, tensors []network.Tensor) (backend.Tensors, error) {
	return eachTensor(tensors, func(t network.Tensor) (*backend.DeviceTensor, error) {
		return uploadZeros(d, shapes.Make(dtypes.Float32, t.Shape...))
	})
}

// eachTensor makes a list of tensors. After an error the list is empty.
func eachTensor(
	tensors []network.Tensor, upload func(network.Tensor) (*backend.DeviceTensor, error),
) (backend.Tensors, error) {
	list := make(backend.Tensors, len(tensors))
	for i, t := range tensors {
		var err error
		if list[i], err = upload(t); err != nil {
			list.Release()
			return nil, err
		}
	}
	return list, nil
}

// Initial makes the first values of a parameter: 0 for biases, 1 for gains, and for weights
// random numbers from a normal distribution. Its deviation is the one that network gives, which
// for VGG16 is torchvision's and for GPT-2 Hugging Face's, or √(2/inputs), after He et al.
// 2015.
func Initial[T float32 | float64](seed uint64, t network.Tensor) []T {
	values := make([]T, t.Shape.Elements())
	switch {
	case strings.HasSuffix(t.Name, ".bias"):
	case len(t.Shape) == 1:
		for i := range values {
			values[i] = 1
		}
	default:
		source := rand.New(rand.NewPCG(seed, hash(t.Name)))
		sigma := deviation(t)
		for i := range values {
			values[i] = T(sigma * source.NormFloat64())
		}
	}
	return values
}

// deviation returns the deviation of the first values of a weight.
func deviation(t network.Tensor) float64 {
	return cmp.Or(t.Deviation, math.Sqrt(2/float64(t.Shape[1:].Elements())))
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
