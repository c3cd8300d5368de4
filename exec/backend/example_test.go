package backend_test

import (
	"fmt"

	"psim/exec/backend"
)

// Numbers go to one device, from there to another, and back. Each device counts the bytes of
// its tensors.
func Example() {
	devices, err := backend.Open(2, backend.Options{Oversubscribe: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close(devices)
	x, _ := backend.Upload(devices[0], []float32{1, 2, 3, 4}, 2, 2)
	copied, _ := x.CopyTo(devices[1])
	x.Release()
	values, _ := backend.Read[float32](copied)
	fmt.Println(values, copied.Dimensions(), devices[0].Bytes(), devices[1].Bytes())
	copied.Release()
	// Output: [1 2 3 4] [2 2] 0 16
}
