package kernels

import (
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/network"

	"github.com/gomlx/gomlx/core/graph"
)

// A layer is a layer of a network, with the modules that run it.
type layer struct {
	network.Layer
	chain
}

// newLayer finds the modules of a layer for a number of samples.
func newLayer(l network.Layer, samples int) (layer, error) {
	var modules chain
	var err error
	switch l.Kind {
	case network.KindChain:
		modules, err = chainModules(l)
	case network.KindEmbedding:
		modules, err = embeddingModules(l, samples)
	case network.KindGPTBlock:
		modules, err = blockModules(l, samples)
	default:
		err = fmt.Errorf("there are programs for gpt, mlp and vgg16 only, not for this kind of layer")
	}
	if err != nil {
		return layer{}, fmt.Errorf("layer %s: %w", l.Name, err)
	}
	return layer{l, modules}, nil
}

// chainModules has one module for each operation, and one for a layer that only changes the
// shape.
func chainModules(l network.Layer) (chain, error) {
	var modules chain
	for _, op := range l.Ops {
		m, err := opModule(l, op)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	if len(l.Ops) == 0 && len(l.Input) == 3 && len(l.Output) == 1 {
		modules = append(modules, flatten{height: l.Input[1], width: l.Input[2]})
	}
	return modules, nil
}

// opModule finds the module of an operation.
func opModule(l network.Layer, op network.Op) (module, error) {
	if op.Class == network.Product {
		return productModule(l, op)
	}
	switch op.Function {
	case network.ReLU:
		return relu{op.Name}, nil
	case network.LayerNorm:
		return layerNorm{name: op.Name, key: op.Name, first: l.Lowest && op.Name == l.Ops[0].Name}, nil
	case network.CrossEntropy:
		return crossEntropy{targetsBuffer(l)}, nil
	case network.MaxPool:
		return maxPool{op.Name}, nil
	case network.Spread:
		return repeatPixel{height: l.Output[1], width: l.Output[2]}, nil
	}
	return nil, fmt.Errorf("no program for the operation %s", op.Name)
}

// productModule finds the weight of a product by its name: a matrix [out, in], or one for each
// of 3×3 pixels.
func productModule(l network.Layer, op network.Op) (module, error) {
	weight, bias := "", ""
	var shape network.Dims
	tensors := slices.Concat(l.Params, l.Frozen, l.Tied, l.FrozenTied)
	for _, t := range tensors {
		switch {
		case t.Name == op.Name+".bias":
			bias = t.Name
		case t.Name == op.Name+".weight" || len(tensors) == 1:
			weight, shape = t.Name, t.Shape
		}
	}
	switch {
	case weight == "" || op.Bias != (bias != ""):
		return nil, fmt.Errorf("no parameters for the operation %s", op.Name)
	case len(shape) == 2:
		return linear{name: op.Name, weightName: weight, biasName: bias, outFirst: true, first: op.NoInputGradient}, nil
	case len(shape) == 4 && shape[2] == 3 && shape[3] == 3:
		return convolution{name: op.Name, first: op.NoInputGradient}, nil
	}
	return nil, fmt.Errorf("no program for a weight of shape %v", shape)
}

// targetsBuffer returns the name of the loss's targets, which differs between tokens and
// classes.
func targetsBuffer(l network.Layer) string {
	for _, b := range l.Buffers {
		if strings.HasPrefix(b.Name, "loss.target") {
			return b.Name
		}
	}
	return "loss.targets"
}

func embeddingModules(l network.Layer, samples int) (chain, error) {
	tables := slices.Concat(l.Params, l.Frozen)
	if len(tables) != 2 || len(l.Input) != 1 {
		return nil, fmt.Errorf("an embedding needs a table of tokens and one of positions")
	}
	sum := embedding{samples: samples, sequence: l.Input[0], tokens: tables[0].Name, positions: tables[1].Name}
	return chain{sum, dropoutChain("drop", l.Dropout)}, nil
}

func blockModules(l network.Layer, samples int) (chain, error) {
	tensors := slices.Concat(l.Params, l.Frozen)
	if len(tensors) != 12 || l.Heads < 1 {
		return nil, fmt.Errorf("a GPT-2 block has 12 parameters and heads, not %d and %d", len(tensors), l.Heads)
	}
	column := func(name string) linear {
		key := l.Name + "." + name
		return linear{name: name, weightName: key + ".weight", biasName: key + ".bias"}
	}
	norm := func(name string, first bool) layerNorm {
		return layerNorm{name: name, key: l.Name + "." + name, first: first}
	}
	core := attention{
		samples: samples, heads: l.Heads, sequence: l.Input[0], width: tensors[4].Shape[0] / l.Heads,
		dropout: dropoutChain("attn.attn_dropout", l.Dropout),
	}
	return chain{
		residual{chain{
			norm("ln_1", l.Lowest), column("attn.c_attn"), core, column("attn.c_proj"),
			dropoutChain("attn.resid_dropout", l.Dropout),
		}},
		residual{chain{
			norm("ln_2", false), column("mlp.c_fc"), gelu{"mlp.gelu", "mlp.c_proj.input"}, column("mlp.c_proj"),
			dropoutChain("mlp.dropout", l.Dropout),
		}},
	}, nil
}

// residual adds its input to the output of its modules.
type residual struct{ chain }

func (r residual) forward(s *scope, x *graph.Node) *graph.Node {
	return graph.Add(x, r.chain.forward(s, x))
}

func (r residual) input(s *scope, dy *graph.Node) *graph.Node {
	dx := r.chain.input(s, dy)
	if dx == nil {
		return nil // nothing needs it
	}
	return graph.Add(dy, dx)
}

// chain runs modules one after another.
type chain []module

func (c chain) forward(s *scope, x *graph.Node) *graph.Node {
	for _, m := range c {
		x = m.forward(s, x)
	}
	return x
}

func (c chain) input(s *scope, dy *graph.Node) *graph.Node {
	for i := len(c) - 1; i >= 0; i-- {
		dy = c[i].input(s, dy)
	}
	return dy
}

func (c chain) weight(s *scope) {
	for i := len(c) - 1; i >= 0; i-- {
		if m, ok := c[i].(weighted); ok {
			m.weight(s)
		}
	}
}
