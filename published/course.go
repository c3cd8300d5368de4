package published

import (
	"fmt"
	"math"
	"time"
)

// A courseRun is one run of CMU 11-868's homework: epochs of GPT-2 124M in fp32
// over 5000 samples of 128 tokens.
type courseRun struct {
	schedule     string // and its number of ranks, where it is a pipeline
	placement    string // of the course's three stages; the course's own if empty
	replicas     int
	batch        int
	microbatches int // of a whole batch; what is left over for the last one makes one
	device       string
	rate         float64       // in FLOP/s in place of the device's own; 0 is that
	operation    time.Duration // of the host, for every kernel
}

const courseSamples = 5000

// epoch predicts an epoch in seconds: whole batches, and what they leave over.
func (c courseRun) epoch() (float64, error) {
	step, err := c.step(c.batch, c.microbatches)
	if err != nil {
		return 0, err
	}
	seconds := float64(courseSamples/c.batch) * step.Seconds()
	if left := courseSamples % c.batch; left > 0 {
		if step, err = c.step(left, 1); err != nil {
			return 0, err
		}
		seconds += step.Seconds()
	}
	return seconds, nil
}

func (c courseRun) step(batch, microbatches int) (time.Duration, error) {
	s, err := simulate(c.config(batch, microbatches))
	return s.Summary.StepTime, err
}

// config returns the run's configuration, with the host's threads as PyTorch has them:
// a process for every replica, one interpreter for all ranks of a pipeline. As in
// the course's program, only the blocks are pipelined.
func (c courseRun) config(batch, microbatches int) string {
	threads, cut := "node", `
stages = 2
partition = "course"
whole_last = true
`
	switch {
	case c.schedule == "ddp":
		threads, cut = "rank", "\n"
	case c.placement != "":
		cut = fmt.Sprintf("\nstages = 1\nplacement = %s\npartition = [7, 7, 1]\nwhole_last = true\n", c.placement)
	}
	text := fmt.Sprintf(`
[schedule]
name = %q
microbatches = %d%s
[parallel]
data = %d
bucket = "tensor"
overlap = false
[model]
preset = "gpt2"
sequence_length = 128
[batch]
global = %d
[train]
precision = "fp32"
optimizer = "adamw"
[machine]
device = %q
[machine.host]
operation = %q
threads = %q
`, c.schedule, microbatches, cut, max(1, c.replicas), batch, c.device, c.operation, threads)
	if c.rate > 0 {
		text += fmt.Sprintf("[machine.compute]\nflops = \"%.0fFLOP/s\"\n", c.rate)
	}
	return text
}

// fitRate sets the device's rate with which the predicted epoch is the measured one.
func (c *courseRun) fitRate(measured float64) (err error) {
	c.rate, err = solve(1e11, 1e15, func(rate float64) (bool, error) {
		c.rate = rate
		seconds, err := c.epoch()
		return seconds <= measured, err
	})
	return err
}

// fitOperation sets the host's time for a kernel likewise.
func (c *courseRun) fitOperation(measured float64) error {
	ns, err := solve(1e2, 1e7, func(ns float64) (bool, error) {
		c.operation = time.Duration(ns)
		seconds, err := c.epoch()
		return seconds >= measured, err
	})
	c.operation = time.Duration(ns).Round(100 * time.Nanosecond)
	return err
}

// solve finds the least x from low to high that is enough, to a part in ten thousand.
func solve(low, high float64, enough func(x float64) (bool, error)) (float64, error) {
	for high/low > 1.0001 {
		middle := math.Sqrt(low * high)
		ok, err := enough(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}

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
