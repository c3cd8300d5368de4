package layers_test

import (
	"context"
	"fmt"

	"psim/calibrate/layers"
	"psim/costmodel/models"
	"psim/costmodel/training"
	"psim/exec/measure"
)

// Every distinct layer of a small network is measured for two sizes of microbatch.
func Example() {
	n, _ := models.Model{Family: "mlp", Layers: 3, Hidden: 16}.Network()
	c, err := layers.Measure(context.Background(), n, training.Options{Optimizer: "sgd"}, measure.LayerOptions{
		Samples: layers.Sizes(1), Repeats: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range c.Layers {
		fmt.Println(l.Layer, l.Count, l.Samples, l.Forward > 0)
	}
	fmt.Println("of a machine:", len(c.Machine.Device.Measured), "times,", c.Machine.Link.Bandwidth > 0)
	// Output:
	// fc0 1 1 true
	// fc0 1 2 true
	// fc1 1 1 true
	// fc1 1 2 true
	// fc2 1 1 true
	// fc2 1 2 true
	// of a machine: 6 times, true
}
