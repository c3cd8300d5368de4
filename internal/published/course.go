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

// fitRate sets the device's rate with which the predicted epoch is the measured
// one, to a part in ten thousand.
func (c *courseRun) fitRate(measured float64) (err error) {
	c.rate, err = solve(1e11, 1e15, 1.0001, func(rate float64) (bool, error) {
		c.rate = rate
		seconds, err := c.epoch()
		return seconds <= measured, err
	})
	return err
}

// fitOperation sets the host's time for a kernel likewise.
func (c *courseRun) fitOperation(measured float64) error {
	ns, err := solve(1e2, 1e7, 1.0001, func(ns float64) (bool, error) {
		c.operation = time.Duration(ns)
		seconds, err := c.epoch()
		return seconds >= measured, err
	})
	c.operation = time.Duration(ns).Round(100 * time.Nanosecond)
	return err
}

// solve finds the least x from low to high, to a factor, that is enough.
func solve(low, high, factor float64, enough func(x float64) (bool, error)) (float64, error) {
	for high/low > factor {
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
