package published

import (
	"fmt"
	"time"
)

// coursePipeline returns what pipelining made of model parallel epochs in the public
// runs of the course.
func coursePipeline() Table {
	return Table{
		Name: "course-pipeline", Title: "pipeline parallel epochs of GPT-2 124M, from each run's own model parallel epoch", Figure: "course-pipeline",
		Paper: "18 public runs of CMU 11-868, homework 4 or 5", Place: "README, log or plot script of the repositories named",
		Fitted: "every run's compute rate, from its own model parallel epoch, which is no row; machine.host.operation of the RTX 4090D from its pipeline parallel epoch, and that of both H100-like machines from Mingowzm's, whose model parallel epoch is its second, warm one (15.4 s; the first took 20.0)",
		Note: "One rule is taken for all rows; that it is the copies which decide is inferred from the runs, and only c0derzer0 tried both (with another M). Where a worker thread issues the copies between devices, or one thread issues everything, forwards and backwards overlap (gpipe). Where the main thread issues them, PyTorch's copy is a barrier on the streams of both devices, and autograd takes backwards in the reverse order of the forwards, so that only forwards overlap (hw4). " +
			"In every run the head, a third of the work, sees the whole batch at once (whole_last), and so even gpipe gains no more than a factor of 1.35 with M = 4.\n\n" +
			"For six runs, the rule is not all there is, and their rows in psim validate --published course-pipeline say what other explanations predict. Three (willisguo14, lizchu413, aalexchengg) gain nothing, to 0.1 %, where hw4 gives 1.5 to 2.4 %: as if nothing overlapped, but then four small products would cost no more than a large one. " +
			"With M = 8 and copies in the main thread, c0derzer0 (before) is slower than model parallel, as hw4 gives it, because products of 4 samples run at a lower rate; SimonMen65, with the same settings on the same sort of GPU, is faster by 9 %, which lies between hw4 and gpipe. " +
			"hambone53 is as fast as Mingowzm on the same sort of GPU although its copies are in the main thread (non-blocking): as if backwards overlapped, and its host were a tenth faster. " +
			"Two stages on one device (RTX 3090) took as long as model parallel; psim charges the small products 8 % more.",
		Rows: func() ([]Row, error) {
			operations := map[string]time.Duration{}
			return rowPer(records("course_pipeline.csv"), func(r record) (Row, error) {
				run, err := r.pipelined(r.copies(), operations)
				if err != nil {
					return Row{}, err
				}
				row, err := r.pipelineRow(run)
				if row.Used = r.text("host") == "fit"; err == nil && r.text("settled") == "no" {
					row.Alternatives, err = r.alternatives(run, operations)
				}
				return row, err
			})
		},
	}
}

// courseHost names the row whose host is slow enough to matter with few microbatches.
const courseHost = "odyssey2077/nano_data_pp_parallel RTX 4090D"

func (r record) alternatives(run courseRun, operations map[string]time.Duration) ([]Alternative, error) {
	overlapped, prompt, slow := run, run, run
	overlapped.schedule, prompt.operation = "gpipe", 0
	slow.operation = operations[courseHost]
	list := []Alternative{{Name: "no overlap at all", Predicted: r.number("mp_s")}}
	add := func(name string, run courseRun) error {
		seconds, err := run.epoch()
		list = append(list, Alternative{name, seconds})
		return err
	}
	if err := add("backwards overlap too (gpipe)", overlapped); err != nil {
		return nil, err
	}
	if run.operation > 0 {
		if err := add("a host that is never late", prompt); err != nil {
			return nil, err
		}
	}
	return list, add("the RTX 4090D's host", slow)
}

// copies returns the schedule that follows from who issues the copies between devices.
func (r record) copies() string {
	switch r.text("copies") {
	case "worker thread", "single thread":
		return "gpipe"
	}
	return "hw4"
}

// pipelined returns a pipeline parallel run on the machine that its model parallel
// epoch shows. operations has the host of the rows before, and gets this one's.
func (r record) pipelined(schedule string, operations map[string]time.Duration) (courseRun, error) {
	run := courseRun{
		schedule: "model-parallel", device: r.text("device"),
		batch: r.count("batch"), microbatches: 1, operation: operations[r.text("host")],
	}
	if r.text("copies") == "one device" {
		run.placement = "[0, 0, 0]"
	}
	if err := run.fitRate(r.number("mp_s")); err != nil {
		return run, err
	}
	run.schedule, run.microbatches = schedule, r.count("microbatches")
	if r.text("host") == "fit" {
		if err := run.fitOperation(r.number("pp_s")); err != nil {
			return run, err
		}
		operations[r.text("repository")] = run.operation
	}
	return run, nil
}

func (r record) pipelineRow(run courseRun) (Row, error) {
	seconds, err := run.epoch()
	label := fmt.Sprintf("%s: B=%d, M=%d, %s", r.text("repository"), run.batch, run.microbatches, r.text("copies"))
	if run.operation > 0 {
		label += fmt.Sprintf(", %.0f µs of host", run.operation.Seconds()*1e6)
	}
	return Row{Label: label, Unit: "s", Published: r.number("pp_s"), Predicted: seconds}, err
}
