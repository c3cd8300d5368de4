package courses

import (
	"fmt"
	"slices"
)

// cs1390 describes the assignment of Brown's CS1390: VGG16 on CIFAR-10, on workers
// with a core each.
func cs1390() course {
	upTo8, upTo6 := []int{1, 2, 3, 4, 5, 6, 7, 8}, []int{1, 2, 3, 4, 5, 6}
	c := course{
		name: "cs1390", title: "CS1390, assignment 1: parallelism techniques", questions: true, count: 5,
		device:    "cs1390-core, a core of the course's server for each worker",
		published: "cs1390",
		machine:   "one pinned core of the course's grading server for each worker, with gloo between them (device cs1390-core, link gloo-cs1390)",
		runs: slices.Concat(
			replicated("ddp", "vgg16-cpu-ddp", 64, []int{1, 2, 4}, upTo8...),
			replicated("fsdp", "vgg16-cpu-fsdp", 64, []int{1, 2, 4}, upTo8...),
			staged("model", "vgg16-cpu-model", []int{1, 2, 3}, upTo6...),
			staged("pipeline", "vgg16-cpu-pipeline", []int{1, 2, 3}, upTo6...)),
		sizes: cs1390Sizes(), figures: cs1390Figures(), tasks: cs1390Tasks(),
	}
	simplified := with(replicated("fsdp", "vgg16-cpu-fsdp", 64, nil, 4), "parallel.simplified=true", "parallel.gather=tensor")[0]
	simplified.name += " simplified"
	c.runs = append(c.runs, simplified)
	for _, m := range []int{1, 4, 8} {
		c.runs = append(c.runs, experiment{fmt.Sprintf("pipeline=3 M=%d", m), "vgg16-cpu-pipeline", []string{fmt.Sprint("schedule.microbatches=", m)}, false})
	}
	return c
}

// cs1390Figures lists the seven figures that the assignment names, and further ones.
func cs1390Figures() []figure {
	return []figure{
		{path: "graphs/ddp_split_time.png", kind: "split-time", runs: words("ddp", 1, 2, 4), caption: "time of a worker's step, split"},
		{path: "graphs/ddp_throughput_comparison.png", kind: "throughput", runs: words("ddp", 1, 2, 4), caption: "throughput of data parallelism"},
		{path: "graphs/model_timeline.png", kind: "timeline", runs: words("model", 3), caption: "a step of model parallelism on three workers"},
		{path: "graphs/model_throughput_comparison.png", kind: "throughput", runs: words("model", 1, 2, 3), caption: "throughput of model parallelism"},
		{path: "graphs/fsdp_throughput_comparison.png", kind: "throughput", runs: slices.Concat(words("fsdp", 1, 2, 4), words("ddp", 1, 2, 4)), caption: "throughput of FSDP, and of DDP"},
		{path: "graphs/pipeline_timeline.png", kind: "timeline", runs: words("pipeline", 3), caption: "a step of pipeline parallelism on three workers, two microbatches"},
		{path: "graphs/pipeline_throughput_comparison.png", kind: "throughput", runs: slices.Concat(words("pipeline", 1, 2, 3), words("model", 1, 2, 3)), caption: "throughput of pipeline parallelism, and of model parallelism"},
		{path: "graphs/replicas.png", kind: "sweep", key: "throughput.samples_per_s", caption: "DDP and FSDP on 1 to 8 workers",
			runs: slices.Concat(words("ddp", 1, 2, 3, 4, 5, 6, 7, 8), words("fsdp", 1, 2, 3, 4, 5, 6, 7, 8))},
		{path: "graphs/stages.png", kind: "sweep", key: "throughput.samples_per_s", caption: "model and pipeline parallelism on 1 to 6 workers",
			runs: slices.Concat(words("model", 1, 2, 3, 4, 5, 6), words("pipeline", 1, 2, 3, 4, 5, 6))},
		{path: "graphs/microbatches.png", kind: "sweep", key: "bubble.makespan", caption: "the pipeline's bubble by the number of microbatches, on three workers",
			runs: []string{"pipeline=3 M=1", "pipeline=3", "pipeline=3 M=4", "pipeline=3 M=8"}},
		{path: "graphs/memory.png", kind: "memory", runs: []string{"ddp=4", "fsdp=4", "fsdp=4 simplified", "model=3", "pipeline=3"}, caption: "memory of the fullest worker; simplified is FSDP as the assignment has it written, which keeps the whole model beside its shards"},
	}
}

func cs1390Tasks() []task {
	return []task{
		{"Part 1: DDP", "Asked for: the split of a worker's time on 1, 2 and 4 workers, and the throughput", []string{"graphs/ddp_split_time.png", "graphs/ddp_throughput_comparison.png"}, nil},
		{"Part 2: model parallelism", "Asked for: the timeline on 3 workers, and the throughput on 1, 2 and 3", []string{"graphs/model_timeline.png", "graphs/model_throughput_comparison.png"}, nil},
		{"Part 3: FSDP", "Asked for: the throughput on 1, 2 and 4 workers, to compare with DDP", []string{"graphs/fsdp_throughput_comparison.png"}, nil},
		{"Part 4: pipeline parallelism", "Asked for: the timeline on 3 workers, and the throughput on 1, 2 and 3, to compare with model parallelism", []string{"graphs/pipeline_timeline.png", "graphs/pipeline_throughput_comparison.png"}, nil},
		{"Beyond the assignment", "Further: more workers, more microbatches, and the memory of each method", []string{"graphs/replicas.png", "graphs/stages.png", "graphs/microbatches.png", "graphs/memory.png"}, nil},
	}
}

// cs1390Sizes lists what is measured, the assignment's own size first. The smallest is
// for tests and very small budgets.
func cs1390Sizes() []size {
	unpooled := map[string]string{"vgg16": "vgg16-pipeline"}
	const text = "VGG16 without its 7×7 pooling for ddp and fsdp, too (34 million parameters)"
	return []size{
		{divisor: 1}, {divisor: 4}, {divisor: 8}, {divisor: 16},
		{divisor: 8, presets: unpooled, text: []string{text}},
		{divisor: 16, presets: unpooled, text: []string{text}},
		{divisor: 32, presets: unpooled, text: []string{text}},
		{divisor: 16, presets: map[string]string{"vgg16": "vgg-mini", "vgg16-pipeline": "vgg-mini-pipeline"}, text: []string{"vgg-mini, VGG16's layers with 10,534 parameters, instead of VGG16"}},
	}
}
