package courses

import "slices"

// hw4 describes homework 4 of CMU's 11-868 (LLM Systems): GPT-2 in fp32 on sequences of
// 128 tokens.
func hw4() course {
	intended := []string{"schedule.name=gpipe", "schedule.whole_last=false", "machine.host.operation=0us"}[:3:3]
	return course{
		name: "hw4", title: "11-868 (LLM Systems), homework 4: data and pipeline parallelism", count: 5, epochs: true,
		device:    "rtx-4090d",
		published: "gpt2-4090d",
		machine:   "RTX 4090Ds in one server, without peer-to-peer copies (device rtx-4090d)",
		runs: with(slices.Concat(replicated("ddp", "gpt2-4090d-data-parallel", 64, []int{1, 2, 4}, 1, 2, 4), []experiment{
			{"model=2", "gpt2-4090d-model-parallel", nil, true},
			{"pipeline=2", "gpt2-4090d-pipeline", nil, true},
			{"gpipe=2", "gpt2-4090d-pipeline", intended, true},
			{"gpipe=2 M=2", "gpt2-4090d-pipeline", append(intended, "schedule.microbatches=2"), false},
			{"gpipe=2 M=8", "gpt2-4090d-pipeline", append(intended, "schedule.microbatches=8"), false},
		}), "data.samples=5000"), // of an epoch
		sizes: hw4Sizes(), figures: hw4Figures(), tasks: hw4Tasks(),
	}
}

// hw4Sizes lists what is measured, the assignment's own size first.
func hw4Sizes() []size {
	return []size{
		{divisor: 1},
		{divisor: 8, sets: []string{"model.layers=6"}, text: []string{"6 layers instead of 12"}},
		{divisor: 16, sets: []string{"model.layers=4"}, text: []string{"4 layers instead of 12"}},
		{divisor: 32, sets: []string{"model.layers=2"}, text: []string{"2 layers instead of 12"}},
		{divisor: 32, sets: []string{"model.layers=2", "model.sequence_length=32"}, text: []string{"2 layers instead of 12", "32 tokens a sample instead of 128"}},
		{divisor: 32, sets: []string{"model.layers=2", "model.sequence_length=32", "model.hidden=256", "model.heads=4", "model.vocab=8192"},
			text: []string{"2 layers instead of 12", "32 tokens a sample instead of 128", "hidden size 256 instead of 768, and 8,192 words instead of 50,257"}},
		{divisor: 32, sets: []string{"model.layers=2", "model.sequence_length=32", "model.hidden=128", "model.heads=4", "model.vocab=2048"},
			text: []string{"2 layers instead of 12", "32 tokens a sample instead of 128", "hidden size 128 instead of 768, and 2,048 words instead of 50,257"}},
		{divisor: 64, sets: []string{"model.layers=2", "model.sequence_length=16", "model.hidden=32", "model.heads=2", "model.vocab=64"},
			text: []string{"2 layers instead of 12", "16 tokens a sample instead of 128", "hidden size 32 instead of 768, and 64 words instead of 50,257"}},
	}
}

// hw4Figures lists the four figures that the assignment asks for, and further ones.
func hw4Figures() []figure {
	return []figure{
		{path: "submit_figures/ddp_time.png", kind: "time", runs: words("ddp", 1, 2, 4), caption: "time of an epoch of data parallelism"},
		{path: "submit_figures/ddp_throughput.png", kind: "throughput", runs: words("ddp", 1, 2, 4), caption: "tokens per second of data parallelism"},
		{path: "submit_figures/mp_pp_time.png", kind: "time", runs: []string{"model=2", "pipeline=2", "gpipe=2"}, caption: "time of an epoch of model and pipeline parallelism"},
		{path: "submit_figures/mp_pp_throughput.png", kind: "throughput", runs: []string{"model=2", "pipeline=2", "gpipe=2"}, caption: "tokens per second of model and pipeline parallelism"},
		{path: "submit_figures/mp_pp_timeline.png", kind: "timeline", runs: []string{"model=2", "pipeline=2", "gpipe=2"}, caption: "a step of each"},
		{path: "submit_figures/memory.png", kind: "memory", runs: []string{"ddp=1", "ddp=4", "model=2", "pipeline=2"}, caption: "memory of the fullest device"},
	}
}

func hw4Tasks() []task {
	return []task{
		{"Problem 1.3: data parallelism", "Asked for: time and throughput on one device and on several, with 64 samples on each", []string{"submit_figures/ddp_time.png", "submit_figures/ddp_throughput.png"}, sayData},
		{"Problem 2.3: pipeline parallelism", "Asked for: the speedup of pipelining over model parallelism on two devices", []string{"submit_figures/mp_pp_time.png", "submit_figures/mp_pp_throughput.png", "submit_figures/mp_pp_timeline.png"}, sayPipeline},
		{"Beyond the assignment", "Further: the memory of each method", []string{"submit_figures/memory.png"}, nil},
	}
}
