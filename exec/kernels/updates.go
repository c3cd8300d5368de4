package kernels

import (
	"fmt"
	"maps"
	"slices"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Updates are the programs that change parameters, one for each shape in a list of tensors. The
// list may be the parameters of a stage or shards of them.
type Updates struct {
	// Optimizer is the rule. Its LearningRate may be changed between steps.
	Optimizer Optimizer

	dtype    dtypes.DType
	shapes   []shapes.Shape
	programs map[string]*backend.Program // by shape
}

// An OptimizerState holds what an optimizer remembers of each parameter. The zero value is the
// state before the first step.
type OptimizerState struct {
	Steps   int
	moments [2]backend.Tensors
}

// NewUpdates compiles the programs for tensors of these shapes.
func NewUpdates(engine compute.Backend, parameters []network.Tensor, optimizer Optimizer) (*Updates, error) {
	return newUpdates(engine, parameters, optimizer, dtypes.Float32)
}

func newUpdates(
	engine compute.Backend, parameters []network.Tensor, optimizer Optimizer, dtype dtypes.DType,
) (*Updates, error) {
	if err := optimizer.Validate(); err != nil {
		return nil, err
	}
	u := &Updates{Optimizer: optimizer, dtype: dtype, programs: map[string]*backend.Program{}}
	for _, t := range parameters {
		shape := shapes.Make(dtype, t.Shape...)
		u.shapes = append(u.shapes, shape)
		if _, ok := u.programs[shape.String()]; ok {
			continue
		}
		made, err := compileStep(engine, shape, optimizer)
		if err != nil {
			u.Close()
			return nil, err
		}
		u.programs[shape.String()] = made
	}
	return u, nil
}

// compileStep compiles a step for parameters of one shape.
func compileStep(engine compute.Backend, shape shapes.Shape, optimizer Optimizer) (*backend.Program, error) {
	name := optimizer.Name + " step of " + shape.String()
	made, err := backend.Compile(engine, name, func(b *backend.Inputs) []*graph.Node {
		results := append([]*graph.Node{graph.Zeros(b.Graph, shape)}, optimizer.build(b, shape)...)
		// The zeros do not take the gradient's memory: XLA would copy all of them to be safe.
		for i, name := range append([]string{stepParameterKey}, momentKeys[:]...)[:len(results)-1] {
			b.Replace(b.Input(name, shape), results[i+1])
		}
		return results
	})
	if err == nil {
		made.InPlace = spendAll
	}
	return made, err
}

// Step changes parameters and state by one step of the optimizer, and makes the gradients zero.
// The tensors in the lists are replaced.
func (u *Updates) Step(parameters, gradients backend.Tensors, state *OptimizerState) error {
	if len(parameters) != len(u.shapes) || len(gradients) != len(u.shapes) {
		return fmt.Errorf("optimizer step: %d parameters and %d gradients, not %d",
			len(parameters), len(gradients), len(u.shapes))
	}
	if len(parameters) == 0 {
		return nil
	}
	scalars, err := u.scalars(parameters[0].Device(), state.Steps+1)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range scalars {
			t.Release()
		}
	}()
	if err := u.Begin(parameters[0].Device(), state); err != nil {
		return err
	}
	s := stepTensors{parameters, gradients, state, scalars}
	for i := range parameters {
		if err := u.stepOne(i, s); err != nil {
			return err
		}
	}
	state.Steps++
	return nil
}

// Begin makes the moments zero before the first step, if they are missing.
func (u *Updates) Begin(d *backend.LocalDevice, state *OptimizerState) error {
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

// stepTensors holds the tensors that a step of the optimizer works on.
type stepTensors struct {
	parameters, gradients backend.Tensors
	state                 *OptimizerState
	scalars               backend.NamedTensors
}

// stepOne changes the i-th parameter.
func (u *Updates) stepOne(i int, s stepTensors) error {
	given := backend.NamedTensors{stepParameterKey: s.parameters[i], gradientKey: s.gradients[i]}
	maps.Copy(given, s.scalars)
	old := []**backend.DeviceTensor{&s.gradients[i], &s.parameters[i]}
	for m := range u.Optimizer.moments() {
		given[momentKeys[m]] = s.state.moments[m][i]
		old = append(old, &s.state.moments[m][i])
	}
	spend := func(name string) bool { return s.scalars[name] == nil }
	results, err := u.programs[u.shapes[i].String()].Run(s.parameters[i].Device(), given, spend)
	if err != nil {
		return err
	}
	for k, t := range results {
		(*old[k]).Release()
		*old[k] = t
	}
	return nil
}

// scalars uploads the scalars of a step.
func (u *Updates) scalars(d *backend.LocalDevice, step int) (backend.NamedTensors, error) {
	scalars := backend.NamedTensors{}
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
func (s *OptimizerState) Release() {
	s.moments[0].Release()
	s.moments[1].Release()
	*s = OptimizerState{}
}

// Compiled lists the programs.
func (u *Updates) Compiled() []*backend.Program { return slices.Collect(maps.Values(u.programs)) }

// Close frees the programs.
func (u *Updates) Close() {
	for _, p := range u.programs {
		p.Close()
	}
}

func uploadZeros(d *backend.LocalDevice, shape shapes.Shape) (*backend.DeviceTensor, error) {
	return backend.FromFlat(d, dtypes.MakeAnySlice(shape.DType, shape.Size()), shape, true)
}

func uploadScalar(d *backend.LocalDevice, value float64, dtype dtypes.DType) (*backend.DeviceTensor, error) {
	if dtype == dtypes.Float64 {
		return backend.Upload(d, []float64{value})
	}
	return backend.Upload(d, []float32{float32(value)})
}

// spendAll lets a program use up all inputs.
func spendAll(string) bool { return true }

// Names of the inputs of updates.
const (
	gradientKey      = "gradient"
	stepParameterKey = "parameter"
)

var momentKeys = [2]string{"first moment", "second moment"}
