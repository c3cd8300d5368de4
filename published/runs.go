package published

import (
	"slices"
	"strconv"
	"strings"
)

// A runs is a file of training runs that somebody has published: a column for every key
// of a configuration, one for the seconds of a step, and one that marks what constants
// were fitted to.
type runs struct {
	file   string // of testdata, without runs_ and .csv
	title  string
	place  string
	fitted string
	note   string
	// site is another network of the same place, as it was measured there, and siteName
	// what it is called: an alternative for the rows of trainings with several plans.
	site, siteName string
}

// sources lists where training runs are from.
func sources() []runs {
	return []runs{{
		file: "mpt", title: "GPTs of 125M to 70B on 8 to 512 A100 and H100, PyTorch FSDP", place: "mosaicml/llm-foundry, scripts/train/benchmarking/README.md",
		fitted: "the rate of fused attention, and the time of the host before every layer, of stack pytorch-fsdp on A100 and H100, and the H100's rate of products, from every fourth row on one node of A100 and every second on one of H100",
		note:   "The rates of products and memory of the A100 are the catalog's. Rows that no physics here explains: 30b with 8,192 tokens on both devices, and 760m with 512 and 1,024 on A100, which others of the same model contradict. All of these are predicted to fill 76 to 78 of 80 GB, where PyTorch's allocator may have to free what it caches and wait for the device; but so are rows that are right.",
	}, {
		file: "bloom", siteName: "the site's network", site: `machine.network = {bandwidth = "12.5GB/s", latency = "5us", collective_call = "34.5us", algorithm = "auto", measured = [{nodes = 4, bandwidth = "5.06GB/s"}]}`, title: "GPTs of 100B to 200B on 8 to 384 A100, Megatron-DeepSpeed", place: "bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles-prequel.md",
		fitted: "efficiency and launch of the device and the times of the host, of stack megatron-deepspeed on A100, from every fourth row and from every fourteenth of vtrain-2024-single-node, and the rate of products of heads that are not aligned",
		note:   "Products come to 200 TFLOP/s, where the catalog's 263 are right for Megatron-LM (korthikanti-2022-table-5); why is not known. Rows with 16 matrices of attention for a device (64 heads, 2 samples) take longer than those with 32, as in vtrain-2024-single-node, and so do heads of 128 features beside those of 144 and 192. That is what disturbs the order of plans for 72 layers of 14336: with as many samples in a microbatch the plans with 6 and with 12 stages are in order, for 1, 2 and 4; but on 6 stages microbatches of 1 and 2 samples took 15.1 and 7.9 % longer than those of 4, which is not predicted. It is no spread of the measurements: plans that were timed two or three times are within 1.1 %.",
	}, {
		file: "nanotron", title: "Llamas of 1B to 80B on 8 to 32 H100, nanotron", place: "huggingface/nanotron, docs/benchmark_summary.svg",
		note: "80B takes 2.9 times as long as predicted: 139 TFLOP/s of a device, where 8.86B with tensor groups of 4 on two nodes reaches 410. Nothing of its configuration explains 290 ms more for each of 256 microbatches: its exchanges within a node are 20 ms at the link's rate, its messages between nodes 8 MB of each device, its sums in fp32 9 ms, and pipelines of as many stages and over as many nodes are right in other rows. It is the only row with 66 GB allocated of 80, and so its authors explain it: it barely fits and runs inefficiently near the limit of its memory, \"see for instance the 80B parameter model training on 4 nodes\" (Tazi et al. 2025, The Ultra-Scale Playbook, on these runs). PyTorch then gives back what it holds in reserve, and waits for the device each time. psim does not price that.",
	}, {
		file: "dgxc", title: "GPTs and Llamas of 8B to 340B on 8 to 2,048 H100, NeMo and MaxText", place: "NVIDIA/dgxc-benchmarking",
		fitted: "the efficiency of stack megatron-te on H100, from every second row of NeMo's pretraining",
		note:   "MaxText is compiled by XLA, and priced as NeMo is. The rows SFT are of packed short samples, whose attention is over less than the whole sequence.",
	}, {
		file: "torchtitan", title: "Llama 3 on 64 A100, torchtitan", place: "pytorch/torchtitan, docs/performance.md",
		fitted: "the efficiency of stack torchtitan on A100, from the row of 70B",
		note:   "The program's configurations for these machines do not compile and have norm_type = \"rmsnorm\", so that these rows are eager, norms in steps over fp32; with kernels = \"compiled\" they would be 5 to 13 % too fast. \"Layer AC\" repeats every second layer, and is predicted as \"op AC\": the two rows that count differ in nothing else, and the source publishes one rate for each, so that there is nothing to split by. Products come to 243 TFLOP/s, where the catalog's 263 are right for the compiled FSDP of runs-fms with the same 70B; why is not known.",
	}, {
		file: "fms", title: "Llama 2 on 128 A100, compiled PyTorch FSDP", place: "foundation-model-stack/fms-fsdp, README",
		note: "13b repeats a part of its layers (\"Selective AC\"), of which the source does not say how many, and is predicted without. 7b is sharded within nodes and replicated over them (HSDP), which psim does not have, and is predicted as sharded over all devices. The source publishes one rate for each row, and no parts of a step.",
	}, {
		file: "narayanan", title: "GPTs of 1.7B to 1008B on 32 to 3,072 A100, Megatron-LM of 2021", place: "Narayanan et al. 2021, arXiv 2104.04473, table 1; NVIDIA/Megatron-LM, examples/sc21/run_table_1.sh",
		note: "No constant has seen these rows, but which of the A100's and Megatron's mechanisms are modelled was decided with this table in view. The narrower the layers, the more predictions are too fast: by 12 % with 2,304 features and microbatches of 16 samples, of which the square of attention is the largest part.",
	}}
}

const runsPaper = "training runs that their authors timed"

// trainingRuns returns a table for every source.
func trainingRuns() []Table {
	var tables []Table
	for _, r := range sources() {
		tables = append(tables, Table{
			Name: "runs-" + r.file, Title: r.title, Figure: "runs", Paper: runsPaper, Place: r.place,
			Fitted: r.fitted, Note: r.note,
			Rows: r.rows,
		})
	}
	return tables
}

// rows predicts all steps, and those of trainings with several plans with the site's
// network, too.
func (r runs) rows() ([]Row, error) {
	list := records("runs_" + r.file + ".csv")
	plans := map[string]int{}
	for _, one := range list {
		plans[one.training()]++
	}
	return rowPer(list, func(one record) (Row, error) {
		row, err := one.run()
		if err != nil || r.site == "" || plans[row.Training] < leastPlans {
			return row, err
		}
		delete(one.cells, "machine.network")
		s, err := simulate(one.configuration() + "\n" + r.site)
		row.Alternatives = []Alternative{{r.siteName, s.Summary.StepTime.Seconds()}}
		return row, err
	})
}

// run predicts a step.
func (r record) run() (Row, error) {
	p, err := r.predicted()
	if err != nil {
		return Row{}, err
	}
	return Row{
		Training: r.training(),
		Label:    r.text("row"), Unit: "s", Used: r.text("used") != "", Stack: r.text("train.stack"), Device: r.text("machine.device"), Facets: r.facets(p),
		Published: r.number("seconds"), Predicted: p.StepTime, Verdict: p.MemoryVerdict,
	}, nil
}

// configuration returns the keys of a configuration that a row has: its columns with a dot.
func (r record) configuration() string {
	var lines []string
	for key, value := range r.cells {
		if strings.Contains(key, ".") && value != "" {
			lines = append(lines, key+" = "+tomlValue(value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// tomlValue writes a cell as TOML has it: a list, a number or a text.
func tomlValue(cell string) string {
	if strings.HasPrefix(cell, "[") {
		return strings.ReplaceAll(cell, " ", ", ")
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil || cell == "true" || cell == "false" {
		return cell
	}
	return strconv.Quote(cell)
}
