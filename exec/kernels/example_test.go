package kernels_test

import (
	"fmt"

	"psim/costmodel/models"
	"psim/exec/backend"
	"psim/exec/kernels"
)

// A perceptron passes three samples forward and backward.
func Example() {
	network, _ := models.Model{Family: "mlp", Layers: 2, Hidden: 4}.Network()
	device, err := backend.OpenGo(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer device.Close()
	programs, err := kernels.Compile(device.Backend, network.Layers, kernels.Options{Samples: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer programs.Close()
	parameters, _ := kernels.InitializeTensors(device, programs.Parameters(), 1)
	gradients, _ := kernels.Zeros(device, programs.Parameters())
	input, _ := backend.Upload(device, make([]float32, 3*4), 3, 4)
	targets, _ := backend.Upload(device, []int32{0, 1, 2}, 3)
	loss, saved, _ := programs.Forward(parameters, input, targets, kernels.MaskSeed{})
	mean, _ := backend.Upload(device, []float32{1.0 / 3}) // the gradient of a mean over three samples
	_, err = programs.Backward(parameters, saved, mean, gradients)
	sum, _ := backend.Read[float32](loss)
	fmt.Printf("a mean loss of %.3f, %d gradients, error %v\n", sum[0]/3, len(gradients), err)
	// Output: a mean loss of 1.386, 4 gradients, error <nil>
}
