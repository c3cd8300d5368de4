package programs

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
)

// ClientOptions configure one XLA client, which is what owns memory on devices.
type ClientOptions struct {
	// Visible are the numbers of the devices that the client may use; nil
	// means all.
	Visible []int
	// MemoryFraction is the part of a device's memory that the client may
	// use, in (0, 1]; 0 leaves it to XLA (three quarters).
	MemoryFraction float64
}

// Try compiles a tiny program and runs it on the device, which shows at once
// what would otherwise fail in the middle of a training step.
func (d *Device) Try() error {
	in, want := make([]int32, 37), make([]int32, 37)
	for i := range in {
		in[i], want[i] = int32(i*i-100), 2*int32(i*i-100)
	}
	x, err := Upload(d, in, len(in))
	if err != nil {
		return err
	}
	defer x.Release()
	p, err := compile(d.Backend, "a trial program", new(string), func(b *builder) []*Node {
		node := b.input("x", x.shape)
		return []*Node{graph.Add(node, node)}
	})
	if err != nil {
		return err
	}
	defer p.close()
	results, err := p.run(d, func(string) *Tensor { return x }, func(string) bool { return false })
	if err != nil {
		return err
	}
	defer List(results).Release()
	got, err := Read[int32](results[0])
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("a trial program computed %v and so on instead of %v", got[:3], want[:3])
	}
	return err
}
