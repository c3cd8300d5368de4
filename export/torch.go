// Package export writes what other programs train by: torch.py is a program for PyTorch, into which
// the plan of a configuration is put.
package export

import (
	"bytes"
	_ "embed" // the program
	"encoding/json"
	"io"
	"strings"

	"psim/configs"
	"psim/costmodel/network"
	"psim/schedules/order"
)

//go:embed torch.py
var torchProgram []byte

// torchPlan is what the program reads of a configuration.
type torchPlan struct {
	Name          string         `json:"name"`
	Schedule      string         `json:"schedule"`
	Stages        int            `json:"stages"`
	VirtualStages int            `json:"virtual_stages"`
	Microbatches  int            `json:"microbatches"`
	DataParallel  int            `json:"data_parallel"`
	Zero          int            `json:"zero"`
	ZeroGroup     int            `json:"zero_group"` // replicas that share what zero = 3 divides; 0: all
	BucketMB      float64        `json:"bucket_mb"`
	Buckets       [][][]string   `json:"buckets"` // of the replicas of a pipeline: by stage, names of tensors
	Overlap       bool           `json:"overlap"`
	Samples       int64          `json:"samples"`  // of a replica, in a step
	Sequence      int64          `json:"sequence"` // tokens of a sample; 0 without tokens
	Input         network.Dims   `json:"input"`    // shape of a sample
	Classes       int            `json:"classes"`
	Seed          uint64         `json:"seed"`
	Precision     string         `json:"precision"` // on GPUs: "bf16" or "fp32"
	Optimizer     torchOptimizer `json:"optimizer"`
	Tied          string         `json:"tied"`  // a tensor that the first and the last layer share
	Cut           []int          `json:"cut"`   // layers of every stage
	Order         []string       `json:"order"` // a row of PyTorch's notation for every rank
	Layers        []torchLayer   `json:"layers"`
	Config        map[string]any `json:"config"`
	// What --alone times besides passes: one message of every kind, and collectives of every size.
	Messages    []torchMessage    `json:"messages"`
	Collectives []torchCollective `json:"collectives"`
}

type torchMessage struct {
	Kind  string `json:"kind"`
	Stage int32  `json:"stage"` // that sends it
	From  int32  `json:"from"`
	To    int32  `json:"to"`
	Bytes int64  `json:"bytes"`
}

type torchCollective struct {
	Kind   string    `json:"kind"`
	Bytes  int64     `json:"bytes"`
	Groups [][]int32 `json:"groups"` // of ranks, which run it at the same time
}

type torchOptimizer struct {
	Name         string  `json:"name"`
	LearningRate float64 `json:"learning_rate"`
	Momentum     float64 `json:"momentum"`
}

type torchLayer struct {
	Kind    string           `json:"kind"`
	Heads   int              `json:"heads,omitempty"`
	Chain   []torchOperation `json:"chain"` // of the kind "chain"
	Tensors []torchTensor    `json:"tensors"`
}

type torchOperation struct {
	Kind    string `json:"kind"`
	Tensors int    `json:"tensors"` // how many of the layer's it takes
}

type torchTensor struct {
	Name      string  `json:"name"`
	Shape     []int   `json:"shape"`
	Deviation float64 `json:"deviation"` // of its first values; 0: all equal
	Ones      bool    `json:"ones"`      // all 1, otherwise 0
}

// WriteTorch writes a program for PyTorch that trains a configuration's network by its order. It
// returns what had to be changed for that. A key that the program cannot follow is an error that
// names it.
func WriteTorch(w io.Writer, c *configs.Config) (changes []string, err error) {
	if err := refuseTorch(c); err != nil {
		return nil, err
	}
	precision, left := c.Train.Precision, leftMemory(c)
	if c, changes, err = c.Executable(0); err != nil {
		return nil, err
	}
	experiment, err := c.Build()
	if err != nil {
		return nil, err
	}
	plan, err := planTorch(c, experiment)
	if err != nil {
		return nil, err
	}
	if plan.Precision = "fp32"; precision == "bf16" {
		plan.Precision = precision
		for i := range changes {
			if changes[i] == "runs in fp32, not bf16" {
				changes[i] = "runs in fp32 on CPUs, and in bf16 on GPUs"
			}
		}
	}
	text, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		return nil, err
	}
	// Within Python's quotes a backslash would be read twice.
	text = bytes.ReplaceAll(text, []byte(`\`), []byte(`\\`))
	_, err = w.Write(bytes.Replace(torchProgram, []byte(`"""{}"""`), []byte(`"""`+string(text)+`"""`), 1))
	return append(changes, left...), err
}

// planTorch returns the plan of an experiment.
func planTorch(c *configs.Config, e *configs.Experiment) (*torchPlan, error) {
	shape, staged := e.Graph.Shape, e.Staged
	if len(staged.Sizes) > 1 || staged.Shards != nil {
		return nil, unsupported(c, "batch", "the program's microbatches are of one size")
	}
	if e.Graph.Placement.Second != nil {
		return nil, unsupported(c, "schedule.name",
			e.Graph.Name+" has stages on two ranks; PyTorch has each stage once")
	}
	plan := &torchPlan{
		Name: c.Name(), Schedule: e.Graph.Name, Stages: shape.Ranks, VirtualStages: max(1, shape.Virtual),
		Microbatches: shape.Microbatches, DataParallel: max(1, shape.Replicas),
		Zero: staged.Zero, ZeroGroup: staged.ZeroGroup,
		BucketMB: float64(staged.Bucket) / (1 << 20), Samples: staged.Sizes[0] * int64(shape.Microbatches),
		Seed: FirstSeed, Optimizer: torchOptimizerOf(staged.Training.Optimizer),
		Overlap: staged.Overlap, Cut: staged.Workload.Layers, Config: c.Object(),
	}
	if plan.Stages > 1 {
		for _, row := range writtenOrder(e.Graph) {
			plan.Order = append(plan.Order, strings.Join(order.Cells(row), ","))
		}
	}
	if plan.Stages > 1 && plan.DataParallel > 1 {
		plan.Buckets = bucketsOf(staged.Stages)
	}
	plan.Messages, plan.Collectives = exchanges(e.Graph)
	layers := e.Network.Layers
	first, last := layers[0], layers[len(layers)-1]
	plan.Classes = last.Output[len(last.Output)-1]
	plan.Input = first.Input
	if first.Ops[0].Class == network.Lookup {
		plan.Sequence = int64(e.Network.TokensPerSample)
	}
	for _, l := range layers {
		layer, err := torchLayerOf(l)
		if err != nil {
			return nil, unsupported(c, "model", err.Error())
		}
		for _, t := range l.Tied {
			plan.Tied = t.Name
		}
		plan.Layers = append(plan.Layers, layer)
	}
	if plan.Tied != "" && plan.Zero == 3 {
		return nil, unsupported(c, "model.tied", "fully_shard shares no tensor between units; --set model.tied=false")
	}
	return plan, nil
}
