package export

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/configs"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// FirstSeed is the default seed of psim exec.
const FirstSeed = 1390

// refuseTorch names the first key that the program cannot follow.
func refuseTorch(c *configs.Config) error {
	copies := c.Parallel.Data > 1
	for _, r := range []struct {
		is           bool
		key, problem string
	}{
		{copies && (c.Parallel.Zero == 1 || c.Parallel.Zero == 2), "parallel.zero",
			"the program has DistributedDataParallel and fully_shard; set zero = 0 or 3"},
		{copies && c.Parallel.Zero == 3 && c.Schedule.Stages > 1, "parallel.zero",
			"the program's pipelines hold whole parameters; set zero = 0"},
		{c.Schedule.Name == "pipedream", "schedule.name",
			"PyTorch's runtime updates once a step; set a schedule that flushes"},
		{c.Train.Frozen != "", "train.frozen", "the program trains all weights; remove frozen"},
		{c.Model.Dropout > 0, "model.dropout", "the program has no dropout; set dropout = 0"},
		{c.Train.Recompute != "" && c.Train.Recompute != "none", "train.recompute",
			`the program keeps all activations; set recompute = "none"`},
	} {
		if r.is {
			return unsupported(c, r.key, r.problem)
		}
	}
	return nil
}

// unsupported returns an error about a key that the program cannot follow.
func unsupported(c *configs.Config, key, problem string) error {
	return &configs.Error{Label: c.Name(), Key: key, Problem: "export torch: " + problem}
}

// writtenOrder returns the passes of every rank in the order of a graph.
func writtenOrder(g *graph.Graph) order.Order {
	rows := make(order.Order, g.Shape.Ranks)
	for _, t := range g.Tasks() {
		if int(t.Rank) < g.Shape.Ranks && t.Kind.Pass() && t.Part == 0 {
			a := order.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch}
			rows[t.Rank] = append(rows[t.Rank], a)
		}
	}
	return rows
}

// bucketsOf returns the names of the tensors of every bucket, by stage.
func bucketsOf(list []stages.Stage) (names [][][]string) {
	for _, stage := range list {
		buckets := [][]string{}
		for _, b := range stage.Buckets {
			buckets = append(buckets, b.Tensors)
		}
		names = append(names, buckets)
	}
	return names
}

// exchanges lists a message of every kind and stage, and collectives of every kind and size.
func exchanges(g *graph.Graph) (messages []torchMessage, collectives []torchCollective) {
	messages, collectives = []torchMessage{}, []torchCollective{}
	for _, t := range g.Classes {
		kind := strings.ToUpper(strings.ReplaceAll(t.Kind.String(), "-", "_"))
		if t.Kind.Collective() {
			collectives = addCollective(collectives, torchCollective{kind, t.Bytes, [][]int32{g.Groups[t.Peer]}})
		}
		one := torchMessage{kind, t.Stage, t.Rank, t.Peer, t.Bytes}
		if t.Kind.Message() && !slices.Contains(messages, one) {
			messages = append(messages, one)
		}
	}
	return messages, collectives
}

// addCollective adds one to a list of collectives by kind and size. Groups that share no rank run the same one.
func addCollective(list []torchCollective, one torchCollective) []torchCollective {
	i := slices.IndexFunc(list, func(c torchCollective) bool { return c.Kind == one.Kind && c.Bytes == one.Bytes })
	if i < 0 {
		return append(list, one)
	}
	for _, rank := range one.Groups[0] {
		if slices.ContainsFunc(list[i].Groups, func(group []int32) bool { return slices.Contains(group, rank) }) {
			return list // known
		}
	}
	list[i].Groups = append(list[i].Groups, one.Groups[0])
	return list
}

// torchOptimizerOf returns PyTorch's settings of psim's optimizers.
func torchOptimizerOf(name string) torchOptimizer {
	switch {
	case strings.HasPrefix(name, "adam"):
		return torchOptimizer{Name: name, LearningRate: 1e-4}
	case name == "sgd-momentum":
		return torchOptimizer{Name: name, LearningRate: 1e-3, Momentum: 0.9}
	}
	return torchOptimizer{Name: "sgd", LearningRate: 1e-3}
}

// torchLayerOf returns a layer with the name of the program's module for it.
func torchLayerOf(l network.Layer) (layer torchLayer, err error) {
	layer.Heads, layer.Tensors = l.Heads, []torchTensor{}
	for _, t := range slices.Concat(l.Params, l.Tied) {
		layer.Tensors = append(layer.Tensors, torchTensorOf(t))
	}
	switch l.Kind {
	case network.KindEmbedding:
		layer.Kind = "embedding"
	case network.KindGPTBlock:
		layer.Kind = "block"
	case network.KindChain:
		layer.Kind = "chain"
		layer.Chain, err = torchChainOf(l)
	default:
		err = layer.takeLlama(l)
	}
	return layer, err
}

func noSuchLayer(l network.Layer, with string) error {
	return fmt.Errorf("the program has no layer like %s%s; it has the families gpt, llama, vgg and mlp", l.Name, with)
}

// llamaTensors are the tensors that the program's block of Llama takes, and whether it needs them.
var llamaTensors = map[string]bool{
	"input_layernorm.weight": true, "post_attention_layernorm.weight": true,
	"self_attn.q_proj.weight": true, "self_attn.k_proj.weight": true, "self_attn.v_proj.weight": true,
	"self_attn.o_proj.weight": true, "self_attn.q_norm.weight": false, "self_attn.k_norm.weight": false,
	"self_attn.q_proj.bias": false, "self_attn.k_proj.bias": false, "self_attn.v_proj.bias": false,
	"self_attn.o_proj.bias": false, "mlp.gate_proj.weight": true, "mlp.up_proj.weight": true,
	"mlp.down_proj.weight": true, "mlp.gate_proj.bias": false, "mlp.up_proj.bias": false, "mlp.down_proj.bias": false,
}

// takeLlama makes a layer of Llama: its table, its last norm, or a block. Weights begin as Hugging Face's.
func (layer *torchLayer) takeLlama(l network.Layer) error {
	for i, t := range layer.Tensors {
		if len(t.Shape) > 1 {
			layer.Tensors[i].Deviation = 0.02
		}
	}
	switch {
	case len(l.Ops) == 1 && l.Ops[0].Class == network.Lookup:
		layer.Kind = "embedding"
		return nil
	case len(l.Ops) == 1 && len(l.Params) == 1 && l.Params[0].Norm:
		layer.Kind, layer.Chain = "chain", []torchOperation{{Kind: "rms norm", Tensors: 1}}
		return nil
	}
	layer.Kind = "llama"
	if l.Dropout > 0 {
		return noSuchLayer(l, " with dropout")
	}
	has := map[string]bool{}
	for _, t := range l.Params {
		name := strings.TrimPrefix(t.Name, l.Name+".")
		if _, known := llamaTensors[name]; !known {
			return noSuchLayer(l, " with "+name)
		}
		has[name] = true
	}
	for name, needed := range llamaTensors {
		if needed && !has[name] {
			return noSuchLayer(l, ", which is not Llama's")
		}
	}
	for _, name := range []string{"self_attn.rotary", "mlp.silu"} {
		if !slices.ContainsFunc(l.Ops, func(o network.Op) bool { return o.Name == name }) {
			return noSuchLayer(l, ", which has no "+name)
		}
	}
	for _, o := range l.Ops {
		if o.Class == network.Product && !o.Weight {
			layer.Heads = int(o.Count)
		}
		if o.Name == "self_attn.q_norm" && !has[o.Name+".weight"] {
			return noSuchLayer(l, " with norms of queries that have no gains")
		}
	}
	return nil
}

// torchChainOf returns the operations of a chain, without the loss.
func torchChainOf(l network.Layer) (chain []torchOperation, err error) {
	chain = []torchOperation{}
	for _, o := range l.Ops {
		one := torchOperation{Kind: o.Function.String()}
		switch {
		case o.Function == network.CrossEntropy:
			continue
		case o.Class == network.Product && len(l.Input) == 3:
			one = torchOperation{Kind: "convolution", Tensors: 2}
		case o.Class == network.Product && o.Bias:
			one = torchOperation{Kind: "linear", Tensors: 2}
		case o.Class == network.Product:
			one = torchOperation{Kind: "linear", Tensors: 1}
		case o.Function == network.LayerNorm:
			one.Tensors = 2
		case o.Function == network.NoFunction:
			return nil, noSuchLayer(l, " with "+o.Name)
		}
		chain = append(chain, one)
	}
	if len(l.Input) > 1 && len(l.Output) == 1 {
		chain = append(chain, torchOperation{Kind: "flatten"})
	}
	return chain, nil
}

func torchTensorOf(t network.Tensor) torchTensor {
	tensor := torchTensor{Name: t.Name}
	for _, n := range t.Shape {
		tensor.Shape = append(tensor.Shape, int(n))
	}
	switch {
	case strings.HasSuffix(t.Name, ".bias"):
	case len(t.Shape) == 1:
		tensor.Ones = true
	case t.Deviation > 0:
		tensor.Deviation = t.Deviation
	default:
		tensor.Deviation = math.Sqrt(2 / float64(t.Shape[1:].Elements()))
	}
	return tensor
}
