package programs

import (
	"fmt"
	"maps"

	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Updates are the programs that change parameters, one for each shape in a list
// of tensors. The list may be a stage's parameters or
// shards of them.
type Updates struct {
	// Optimizer's LearningRate may be changed between steps.
	Optimizer Optimizer

	dtype    dtypes.DType
	shapes   []shapes.Shape
	programs map[string]*program // by shape
}

// State is what an optimizer remembers of each parameter. The zero value is
// that before the first step.
type State struct {
	Steps   int
	moments [2]List
}

// NewUpdates compiles the programs for tensors of the given shapes.
func NewUpdates(backend compute.Backend, parameters []network.Tensor, optimizer Optimizer) (*Updates, error) {
	return newUpdates(backend, parameters, optimizer, dtypes.Float32)
}

func newUpdates(backend compute.Backend, parameters []network.Tensor, optimizer Optimizer, dtype dtypes.DType) (*Updates, error) {
	if err := optimizer.Validate(); err != nil {
		return nil, err
	}
	u := &Updates{Optimizer: optimizer, dtype: dtype, programs: map[string]*program{}}
	for _, t := range parameters {
		shape := shapes.Make(dtype, t.Shape...)
		u.shapes = append(u.shapes, shape)
		if _, ok := u.programs[shape.String()]; ok {
			continue
		}
		made, err := compileStep(backend, shape, optimizer)
		if err != nil {
			u.Close()
			return nil, err
		}
		u.programs[shape.String()] = made
	}
	return u, nil
}

func compileStep(backend compute.Backend, shape shapes.Shape, optimizer Optimizer) (*program, error) {
	made, err := compile(backend, optimizer.Name+" step of "+shape.String(), func(b *builder) []*Node {
		return append([]*Node{graph.Zeros(b.graph, shape)}, optimizer.build(b, shape)...)
	})
	if err == nil {
		made.inPlace = all
	}
	return made, err
}

// Step changes parameters and state by one step of the optimizer, and makes the
// gradients zero. The tensors in the lists are replaced.
func (u *Updates) Step(parameters, gradients List, state *State) error {
	if len(parameters) != len(u.shapes) || len(gradients) != len(u.shapes) {
		return fmt.Errorf("optimizer step: %d parameters and %d gradients, not %d", len(parameters), len(gradients), len(u.shapes))
	}
	if len(parameters) == 0 {
		return nil
	}
	scalars, err := u.scalars(parameters[0].device, state.Steps+1)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range scalars {
			t.Release()
		}
	}()
	if err := u.Begin(parameters[0].device, state); err != nil {
		return err
	}
	for i := range parameters {
		if err := u.stepOne(i, parameters, gradients, state, scalars); err != nil {
			return err
		}
	}
	state.Steps++
	return nil
}

// Begin makes the moments zero before the first step, if they are not there yet.
func (u *Updates) Begin(d *Device, state *State) error {
	if state.Steps > 0 || state.moments[0] != nil {
		return nil
	}
	for m := range u.Optimizer.moments() {
		for _, shape := range u.shapes {
			t, err := uploadZeros(d, shape)
			if err != nil {
				return err
			}
			state.moments[m] = append(state.moments[m], t)
		}
	}
	return nil
}

func (u *Updates) stepOne(i int, parameters, gradients List, state *State, scalars map[string]*Tensor) error {
	given := map[string]*Tensor{stepParameterKey: parameters[i], gradientKey: gradients[i]}
	maps.Copy(given, scalars)
	old := []**Tensor{&gradients[i], &parameters[i]}
	for m := range u.Optimizer.moments() {
		given[momentKeys[m]] = state.moments[m][i]
		old = append(old, &state.moments[m][i])
	}
	spend := func(name string) bool { return scalars[name] == nil }
	results, err := u.programs[u.shapes[i].String()].run(parameters[i].device, given, spend)
	if err != nil {
		return err
	}
	for k, t := range results {
		(*old[k]).Release()
		*old[k] = t
	}
	return nil
}

// scalars that differ from step to step.
func (u *Updates) scalars(d *Device, step int) (map[string]*Tensor, error) {
	scalars := map[string]*Tensor{}
	for name, value := range u.Optimizer.scalars(step) {
		t, err := uploadScalar(d, value, u.dtype)
		if err != nil {
			return nil, err
		}
		scalars[name] = t
	}
	return scalars, nil
}

// Release frees the moments.
func (s *State) Release() {
	s.moments[0].Release()
	s.moments[1].Release()
	*s = State{}
}

// Close frees the programs.
func (u *Updates) Close() {
	for _, p := range u.programs {
		p.close()
	}
}

func uploadZeros(d *Device, shape shapes.Shape) (*Tensor, error) {
	return fromFlat(d, dtypes.MakeAnySlice(shape.DType, shape.Size()), shape, true)
}

func uploadScalar(d *Device, value float64, dtype dtypes.DType) (*Tensor, error) {
	if dtype == dtypes.Float64 {
		return Upload(d, []float64{value})
	}
	return Upload(d, []float32{float32(value)})
}

func all(string) bool { return true }

// Names of the inputs of updates.
const (
	gradientKey      = "gradient"
	stepParameterKey = "parameter"
)

var momentKeys = [2]string{"first moment", "second moment"}
