package kernels

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"psim/exec/backend"
)

// An Optimizer is a rule for changing parameters. Its numbers have the same meaning as in
// PyTorch.
type Optimizer struct {
	Name         string  // sgd, sgd-momentum, adam or adamw
	LearningRate float64 // above 0
	Momentum     float64 // of sgd-momentum, 0 to 1
	Beta1, Beta2 float64 // of adam and adamw, 0 to 1
	Epsilon      float64 // of adam and adamw, above 0
	// WeightDecay times the parameter is added to the gradient; adamw instead subtracts
	// LearningRate times it from the parameter.
	WeightDecay float64
}

// DefaultOptimizer returns PyTorch's defaults, with a learning rate of 0.001, momentum 0.9, and
// no weight decay except adamw's 0.01.
func DefaultOptimizer(name string) Optimizer {
	o := Optimizer{Name: name, LearningRate: 1e-3, Momentum: 0.9, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	if name == "adamw" {
		o.WeightDecay = 0.01
	}
	return o
}

// Validate reports the first setting that is out of range.
func (o Optimizer) Validate() error {
	switch {
	case o.moments() < 0:
		return fmt.Errorf("optimizer = %q: must be one of sgd, sgd-momentum, adam, adamw", o.Name)
	case !(o.LearningRate > 0):
		return fmt.Errorf("learning rate = %g: must be above 0", o.LearningRate)
	case !(o.WeightDecay >= 0):
		return fmt.Errorf("weight decay = %g: must be at least 0", o.WeightDecay)
	case o.moments() == 1 && !(o.Momentum >= 0 && o.Momentum < 1):
		return fmt.Errorf("momentum = %g: must be 0 to 1, less than 1", o.Momentum)
	case o.moments() == 2 && !(o.Beta1 >= 0 && o.Beta1 < 1 && o.Beta2 >= 0 && o.Beta2 < 1 && o.Epsilon > 0):
		return fmt.Errorf("betas = %g, %g and epsilon = %g: must be 0 to 1, less than 1, and above 0",
			o.Beta1, o.Beta2, o.Epsilon)
	}
	return nil
}

// Adaptive reports whether every step is divided by the size of its own gradients.
func (o Optimizer) Adaptive() bool { return o.moments() == 2 }

// moments returns how many tensors are remembered for each parameter; -1 for an unknown
// optimizer.
func (o Optimizer) moments() int {
	switch o.Name {
	case "sgd":
		return 0
	case "sgd-momentum":
		return 1
	case "adam", "adamw":
		return 2
	}
	return -1
}

// Names of the inputs that change from step to step.
const (
	rateKey    = "rate"    // multiplies the direction
	shrinkKey  = "shrink"  // multiplies the parameter (adamw)
	inflateKey = "inflate" // multiplies the root of the second moment
)

// scalars returns the scalars of a step, counted from 1.
func (o Optimizer) scalars(step int) map[string]float64 {
	scalars := map[string]float64{rateKey: o.LearningRate}
	if o.moments() == 2 {
		scalars[rateKey] = o.LearningRate / biasCorrection(o.Beta1, step)
		scalars[inflateKey] = 1 / math.Sqrt(biasCorrection(o.Beta2, step))
	}
	if o.Name == "adamw" {
		scalars[shrinkKey] = 1 - o.LearningRate*o.WeightDecay
	}
	return scalars
}

func biasCorrection(beta float64, steps int) float64 { return 1 - math.Pow(beta, float64(steps)) }

// build makes the nodes of a step for one parameter.
func (o Optimizer) build(b *backend.Inputs, shape shapes.Shape) []*graph.Node {
	p, g := b.Input(stepParameterKey, shape), b.Input(gradientKey, shape)
	scalar := func(name string) *graph.Node { return b.Input(name, shapes.Make(shape.DType)) }
	if o.Name == "adamw" {
		p = graph.Mul(p, scalar(shrinkKey))
	} else if o.WeightDecay > 0 {
		g = graph.Add(g, graph.MulScalar(p, o.WeightDecay))
	}
	rate := scalar(rateKey)
	switch o.moments() {
	case 0:
		return []*graph.Node{graph.Sub(p, graph.Mul(g, rate))}
	case 1:
		m := graph.Add(graph.MulScalar(b.Input(momentKeys[0], shape), o.Momentum), g)
		return []*graph.Node{graph.Sub(p, graph.Mul(m, rate)), m}
	}
	m := blend(b.Input(momentKeys[0], shape), g, o.Beta1)
	v := blend(b.Input(momentKeys[1], shape), graph.Mul(g, g), o.Beta2)
	root := graph.AddScalar(graph.Mul(graph.Sqrt(v), scalar(inflateKey)), o.Epsilon)
	return []*graph.Node{graph.Sub(p, graph.Div(graph.Mul(m, rate), root)), m, v}
}

// blend returns beta·old + (1-beta)·new.
func blend(old, new *graph.Node, beta float64) *graph.Node {
	return graph.Add(graph.MulScalar(old, beta), graph.MulScalar(new, 1-beta))
}
