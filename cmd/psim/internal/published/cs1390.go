package published

import "fmt"

// cs1390Ratios is how throughput grows with the workers in the reference graphs of
// Brown's CS1390: its axes differ, so each is relative to its one worker.
func cs1390Ratios() Table {
	return Table{
		Name: "cs1390-ratios", Title: "throughput of VGG16 on CPU workers, relative to one worker", Figure: "cs1390-ratios",
		Paper: "Brown University, CS1390, project 1", Place: "the course's reference graphs, read by pixel",
		Fitted: "the link's collective bandwidth, in the catalog, from the communication of the DDP run with 4 workers; the core's rate, from the forwards of the model timeline",
		Note: "The examples vgg16-cpu-* with 1 to 8 workers, on one machine: device cs1390-core, link gloo-cs1390. " +
			"DDP grows faster than predicted because its one worker also spends 1.05 s of 24.5 on communication, with nobody, which is not modelled. " +
			"FSDP is not reproduced: from one worker to two and four, a step takes 46 and 93 % longer, and with the bandwidth that DDP shows, gathering every layer twice and summing its gradients takes 2.6 and 3.8 s, for batches of 64 that need 23 s of compute. " +
			"The figure's own axis, 6.18 for one worker, fits neither that machine's rate nor one choice of batch; each worker also keeps a whole model beside its shard, so that memory may have run short. With batches of 32 the errors are 20 and 47 %.",
		Rows: func() ([]Row, error) {
			var list []Row
			var published, predicted float64 // of one worker
			for _, r := range records("cs1390.csv") {
				workers := r.count("workers")
				throughput, err := r.vgg16(workers)
				if err != nil {
					return nil, err
				}
				if workers == 1 {
					published, predicted = r.number("throughput"), throughput
					continue
				}
				list = append(list, Row{
					Used:      r.text("run") == "ddp" && workers == 4,
					Label:     fmt.Sprintf("%s, %d workers", r.text("run"), workers),
					Published: r.number("throughput") / published, Predicted: throughput / predicted,
				})
			}
			return list, nil
		},
	}
}

// vgg16 is the predicted throughput of a run of cs1390.csv, in samples per second:
// that of the example configuration with so many workers. Data parallel ones have 64
// samples each, pipelines in all.
func (r record) vgg16(workers int) (float64, error) {
	samples, key := 64, "schedule.stages"
	if run := r.text("run"); run == "ddp" || run == "fsdp" {
		samples, key = 64*workers, "parallel.data"
	}
	_, summary, err := simulateExample("vgg16-cpu-"+r.text("run"), fmt.Sprintf("%s=%d", key, workers), fmt.Sprintf("batch.global=%d", samples))
	if err != nil {
		return 0, err
	}
	return float64(samples) / summary.StepTime.Seconds(), nil
}
