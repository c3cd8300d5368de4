package published

import (
	"fmt"
	"strings"
	"time"

	"psim"
	"psim/internal/units"
)

// cs1390Ratios returns how throughput grows with the workers in the reference graphs of
// Brown's CS1390: its axes differ, so each is relative to its one worker.
func cs1390Ratios() Table {
	return Table{
		Name: "cs1390-ratios", Title: "throughput of VGG16 on CPU workers, relative to one worker", Figure: "cs1390-ratios",
		Paper: "Brown University, CS1390, project 1", Place: "the course's reference graphs, read by pixel",
		Fitted: "the link's bandwidths, in the catalog: of all-reduces from the communication of the DDP run with 4 workers, of all-gathers from both FSDP runs, one for both; the core's rate and what it takes to start a kernel, from the forwards of the model timeline",
		Note: "The examples vgg16-cpu-* with 1 to 8 workers, on one machine: device cs1390-core, link gloo-cs1390. " +
			"DDP grows faster than predicted because its one worker also spends 1.05 s of 24.5 on communication, with nobody, which is not modelled. " +
			"From one worker to two and four, a step of FSDP takes 46 and 93 % longer. With the bandwidth that DDP shows, gathering every layer twice and summing its gradients would add 9 and 14 % (throughput 33 and 70 % too high): its gathers, which are all that DDP does not do, take eleven times longer for every byte. " +
			"Why is not known; each worker keeps a whole model beside its shard, so that memory may have run short. That one bandwidth meets both runs to 6 % says that the time grows with the bytes, not that this is the cause.",
		Rows: func() ([]Row, error) {
			var published, predicted float64 // of one worker
			return rowsPer(records("cs1390.csv"), func(r record) ([]Row, error) {
				workers := r.count("workers")
				throughput, err := r.vgg16(workers)
				if workers == 1 {
					published, predicted = r.number("throughput"), throughput
					return nil, err
				}
				return []Row{{
					Used:      r.text("run") == "ddp" && workers == 4 || r.text("run") == "fsdp",
					Label:     fmt.Sprintf("%s, %d workers", r.text("run"), workers),
					Published: r.number("throughput") / published, Predicted: throughput / predicted,
				}}, err
			})
		},
	}
}

// cs1390Times returns what the steps behind those ratios are made of.
func cs1390Times() Table {
	return Table{
		Name: "cs1390-times", Title: "seconds of the parts of a step of VGG16 on CPU workers", Figure: "cs1390-times",
		Paper: "Brown University, CS1390, project 1", Place: "the course's reference graphs, split time and timeline",
		Fitted: "as cs1390-ratios: the communication of the DDP run with 4 workers, and the forwards of the model timeline, by least squares of their relative errors",
		Note: "Backwards of the timeline took 3.85 times their forwards; 3.72 are predicted. Three things add up, none of them a number of these rows. " +
			"A solution of the assignment that is public takes every block's gradients in two calls, for its parameters and for its input (backward = \"two-pass\"). " +
			"The course's own set-up turns on PyTorch's anomaly detection, which looks through every gradient in two more kernels (detect_anomaly): in DDP as well. " +
			"And starting a kernel takes 45 ms, which the forwards show: the last stage has a quarter of the second's kernels and a twelfth of its FLOPs, and took an eighth of its time. Why so long is inferred: PyTorch has a thread for every core of the server, and those of a worker all share one. " +
			"Alone, two passes make 2.53 forwards, and one backward 1.82. " +
			"Left over: the last stage's backward took 40 % longer than what is counted, and DDP's steps 7 to 10 % less. " +
			"PyTorch checks the gradient of a linear layer's weight twice, once transposed, which would add a sixth to that stage and 1.5 % to DDP. " +
			"The pipeline timeline is not among the rows, because its batch is not known: passes over one of its two microbatches took as long as the model timeline's over the batch (forwards of 1.48, 3.03 and 0.54 s), where 0.99, 2.31 and 0.40 s are predicted for half of it.",
		Rows: func() ([]Row, error) {
			return rowPer(records("cs1390_times.csv"), record.courseTime)
		},
	}
}

func (r record) courseTime() (Row, error) { return r.courseTimeOn("") }

// courseTimeOn predicts the part of a step on the course's machine, or on another.
func (r record) courseTimeOn(machine string) (Row, error) {
	run, workers, part := r.text("run"), r.count("workers"), r.text("part")
	s, err := simulateVGG16(run, workers, strings.Fields(machine)...)
	if err != nil {
		return Row{}, err
	}
	row := Row{
		Label: fmt.Sprintf("%s, %s, %s", run, units.Plural(workers, "worker"), part), Unit: "s",
		Published: r.number("seconds"), Used: r.text("used") == "yes",
	}
	var took time.Duration
	switch first := s.Summary.Ranks[0]; part { // all replicas do the same
	case "communication":
		took = first.ExposedCommunication
	case "computation and optimizer":
		took = first.Compute + first.Optimizer
	default:
		stage := r.count("stage")
		row.Label = fmt.Sprintf("%s, stage %d, %s", run, stage, part)
		forward, backward := passes(s.Trace, stage)
		if took = forward; part == "backward" {
			took = backward
		}
	}
	row.Predicted = took.Seconds()
	return row, nil
}

// vgg16 returns the predicted throughput of a run of cs1390.csv, in samples per second.
func (r record) vgg16(workers int) (float64, error) {
	s, err := simulateVGG16(r.text("run"), workers)
	if err != nil {
		return 0, err
	}
	return float64(s.Experiment.Samples) / s.Summary.StepTime.Seconds(), nil
}

// simulateVGG16 returns the example configuration of a run with so many workers. Data
// parallel ones have 64 samples each, pipelines in all.
func simulateVGG16(run string, workers int, sets ...string) (psim.Simulation, error) {
	samples, key := 64, "schedule.stages"
	if run == "ddp" || run == "fsdp" {
		samples, key = 64*workers, "parallel.data"
	}
	sets = append(sets, fmt.Sprintf("%s=%d", key, workers), fmt.Sprintf("batch.global=%d", samples))
	return predict(psim.Load("vgg16-cpu-"+run, sets...))
}
