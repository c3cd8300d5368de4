package published

import (
	"fmt"

	"psim/costmodel/group"
	"psim/schedules/graph"
)

// deepEP returns the bandwidths of dispatch and combine that the authors of DeepEP measured.
func deepEP() Table {
	return Table{
		Name: "deepep", Title: "dispatch and combine over 8 to 64 H800", Figure: "deepep",
		Paper: "deepseek-ai/DeepEP, docs/legacy.md", Place: "Normal kernels with NVLink and RDMA forwarding",
		Fitted: "the share of the rates of link and network that DeepEP reaches, from 8 and 32 devices; error on 16 and 64",
		Device: "rates of link and network as DeepEP's authors and a datasheet state them",
		Note: "A token goes once to every node that has one of its experts and there once to every device, all choices of experts being equally likely; the slower of link and network decides. " +
			"With 16 devices that is the link inside a node, which brings tokens to 5.7 devices while the network carries one copy of each.",
		Rows: func() ([]Row, error) { return rowPer(records("deepep.csv"), record.deepEP) },
	}
}

// The setting of the table, as DeepSeek-V3 was trained.
const (
	deepEPTokens, deepEPHidden = 4096, 7168
	deepEPConfig               = `
		schedule.name = "ddp"
		batch.micro = 1
		train.precision = "bf16"
		[model]
		family = "mixtral"
		layers = 1
		hidden = %d
		heads = 56
		ffn_hidden = 2048
		vocab = 256
		sequence_length = %d
		experts = 256
		experts_per_token = 8
		expert_groups = %d
		groups_per_token = %d
		[parallel]
		data = %d
		expert = %[5]d
		dispatcher = "deepep"
		dispatch = "fp8"
		[machine]
		device = "h800-80gb-sxm"
		devices_per_node = 8
		nics_per_node = 8
		network = "ib-ndr"`
)

// deepEP predicts a bandwidth by the first all-to-alls of a step.
func (r record) deepEP() (Row, error) {
	devices, part, bytes := r.count("devices"), uint16(1), 2.
	if r.text("operation") == "dispatch" {
		part, bytes = 0, 1+4./128
	}
	nodes := devices / 8
	routing := group.Routing{Experts: 256, PerToken: 8, Groups: nodes, GroupsPerToken: min(4, nodes)}
	p, err := simulate(fmt.Sprintf(deepEPConfig, deepEPHidden, deepEPTokens, routing.Groups, routing.GroupsPerToken, devices))
	if err != nil {
		return Row{}, err
	}
	places := nodes
	if nodes == 1 {
		places = devices
	}
	row := Row{
		Label: fmt.Sprintf("%s %d devices", r.text("operation"), devices), Unit: "GB/s",
		Published: r.number("gb_s"), Used: devices == 8 || devices == 32,
	}
	for i, t := range p.Trace.Graph.Tasks {
		if t.Kind == graph.AllToAll && t.Rank == 0 && t.Part == part {
			row.Predicted = deepEPTokens * deepEPHidden * bytes * routing.Reached(places) / 1e9 / p.Trace.Spans[i].Duration().Seconds()
		}
	}
	return row, nil
}
