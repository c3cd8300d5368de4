package backend

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomlx/gomlx/core/graph"
)

// MatrixSpeed measures a product of two float32 matrices with size rows and columns, and
// returns the operations per second of the fastest repetition. It repeats for about the time
// given, and at least once.
func (d *LocalDevice) MatrixSpeed(size int, budget time.Duration) (flops float64, err error) {
	times, err := d.Product(size, budget)
	n := float64(size)
	return 2 * n * n * n / max(times.Fastest, time.Nanosecond).Seconds(), err
}

// ProductTimes are the times of a matrix product that was repeated.
type ProductTimes struct{ Fastest, Mean time.Duration }

// Product measures a product of two float32 matrices with size rows and columns. It repeats for
// about the time given, and at least once.
func (d *LocalDevice) Product(size int, budget time.Duration) (times ProductTimes, err error) {
	values := make([]float32, size*size)
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	x, err := Upload(d, values, size, size)
	if err != nil {
		return times, err
	}
	defer x.Release()
	p, err := Compile(d.Backend, "a matrix product", func(b *Inputs) []*graph.Node {
		node := b.Input("x", x.shape)
		return []*graph.Node{graph.MatMul(node, node)}
	})
	if err != nil {
		return times, err
	}
	defer p.Close()
	var sum time.Duration
	// The first run also prepares memory.
	for start, runs := time.Now(), 0; runs < 2 || time.Since(start) < budget; runs++ {
		begin := time.Now()
		results, err := p.Run(d, NamedTensors{"x": x}, nil)
		if err != nil {
			return times, err
		}
		took := time.Since(begin)
		Tensors(results).Release()
		if runs == 0 {
			continue
		}
		if times.Fastest == 0 || took < times.Fastest {
			times.Fastest = took
		}
		sum += took
		times.Mean = sum / time.Duration(runs)
	}
	return times, nil
}

// productSize is the number of rows and columns of matrices whose product is compared.
const productSize = 128

// ProductError multiplies two matrices of float32 and returns how far off the product is at
// most, as a part of its largest number. All bits of float32 are 1e-6; a device that drops some
// (TF32 keeps 10 of 23) is a hundred times as far off.
func (d *LocalDevice) ProductError() (relative float64, err error) {
	const n = productSize
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(math.Sin(float64(i)))
	}
	x, err := Upload(d, values, n, n)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	p, err := Compile(d.Backend, "a product to compare", func(b *Inputs) []*graph.Node {
		node := b.Input("x", x.shape)
		return []*graph.Node{graph.MatMul(node, node)}
	})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	results, err := p.Run(d, NamedTensors{"x": x}, nil)
	if err != nil {
		return 0, err
	}
	defer Tensors(results).Release()
	got, err := Read[float32](results[0])
	if err != nil {
		return 0, err
	}
	off, largest := 0.0, 0.0
	for i, g := range got {
		exact := 0.0
		for k := range n {
			exact += float64(values[i/n*n+k]) * float64(values[k*n+i%n])
		}
		off, largest = max(off, math.Abs(float64(g)-exact)), max(largest, math.Abs(exact))
	}
	return off / largest, nil
}

// Try compiles a tiny program and runs it on the device. It shows at once what would otherwise
// fail in the middle of a training step.
func (d *LocalDevice) Try() error {
	in, want := make([]int32, 37), make([]int32, 37)
	for i := range in {
		in[i], want[i] = int32(i*i-100), 2*int32(i*i-100)
	}
	x, err := Upload(d, in, len(in))
	if err != nil {
		return err
	}
	defer x.Release()
	p, err := Compile(d.Backend, "a trial program", func(b *Inputs) []*graph.Node {
		node := b.Input("x", x.shape)
		return []*graph.Node{graph.Add(node, node)}
	})
	if err != nil {
		return err
	}
	defer p.Close()
	results, err := p.Run(d, NamedTensors{"x": x}, nil)
	if err != nil {
		return err
	}
	defer Tensors(results).Release()
	got, err := Read[int32](results[0])
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("a trial program computed %v and so on instead of %v", got[:3], want[:3])
	}
	return err
}
