package published

import "fmt"

// gpt24090D returns the course's four ways to train GPT-2 on two RTX 4090D.
func gpt24090D() Table {
	return Table{
		Name: "gpt2-4090d", Title: "epochs of GPT-2 124M in fp32 on two RTX 4090D", Figure: "gpt2-4090d",
		Paper: "odyssey2077/nano_data_pp_parallel, CMU 11-868 homework 4", Place: "README",
		Fitted: "the device's fp32 efficiency and its link's collective bandwidth, in the catalog, from the single and the data parallel run; machine.host.operation from the pipeline parallel run",
		Note: "The pipeline is slower than model parallel although both devices work at once. Its program cuts a batch in four and launches four times as many kernels, all from one Python process: 58 ms for every microbatch, while the devices, by themselves, would need 136 ms for the step of four. " +
			"psim counts 371 kernels in a microbatch, which makes 157 µs for each; PyTorch has more of them (its GELU alone is several), each cheaper. That the epochs of this run differ by 0.009 s, and those of the others by 0.3 to 1.6 s, also points to a fixed cost. " +
			"The constant comes from that row and is there in all four, with a process for each replica of data parallel: one device with 64 samples and model parallel with 32 are not bound by launches, and change by less than 1 %.",
		Rows: func() ([]Row, error) {
			rows := records("gpt2_4090d.csv")
			pipeline := rows[len(rows)-1].course()
			if err := pipeline.fitOperation(rows[len(rows)-1].number("epoch_s")); err != nil {
				return nil, err
			}
			return rowPer(rows, func(r record) (Row, error) {
				run := r.course()
				run.operation = pipeline.operation
				seconds, err := run.epoch()
				label := r.text("run")
				if run.schedule == "hw4" {
					label += fmt.Sprintf(", %.0f µs of host for every kernel", run.operation.Seconds()*1e6)
				}
				return Row{
					Label: label, Unit: "s", Published: r.number("epoch_s"), Predicted: seconds,
					Used: run.schedule != "model-parallel",
				}, err
			})
		},
	}
}

// course reads a run of gpt2_4090d.csv, without its host.
func (r record) course() courseRun {
	run := courseRun{schedule: "ddp", device: "rtx-4090d", batch: r.count("batch"), microbatches: r.count("microbatches")}
	switch r.text("run") {
	case "data parallel":
		run.replicas = 2
	case "model parallel":
		run.schedule = "model-parallel"
	case "pipeline parallel":
		run.schedule = "hw4"
	}
	return run
}
