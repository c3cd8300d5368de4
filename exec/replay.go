package exec

import (
	"context"
	"fmt"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/programs"
)

// Replay trains what a pipeline with stashed weights trains (Narayanan et al.
// 2019, "PipeDream"), without a pipeline: on one device, one microbatch after
// another, with the versions of the weights that the rule names. Of P stages,
// stage s passes microbatch m of a step, forward and backward, with its weights
// after max(0, m − (P − 1 − s)) of the step's updates, and makes the next update
// from that gradient. It knows the job's network, layers, samples and optimizer,
// but not its graph, and returns what Train records of a run that was told to.
func Replay(ctx context.Context, job Job, d *programs.Device, batch func(step int) Batch, o TrainOptions) (*Record, error) {
	job.Recompute = programs.SaveAll
	r := &replay{job: job, device: d, cache: newProgramCache(job), record: &Record{}}
	defer r.close()
	if err := r.open(); err != nil {
		return nil, err
	}
	total := o.Total()
	for n := range total {
		if o.Progress != nil {
			o.Progress(n, total)
		}
		if err := r.step(ctx, n, batch(n), n == 0, n == total-1); err != nil {
			return nil, err
		}
	}
	all, err := r.read(func(s *replayed) programs.List { return s.versions[len(s.versions)-1] })
	r.record.Parameters = []map[string][]float32{all}
	return r.record, err
}

// A replay holds the state of a Replay.
type replay struct {
	job    Job
	device *programs.Device
	cache  *programCache
	stages []*replayed
	record *Record
}

// A replayed stage has the versions of its weights.
type replayed struct {
	bySize    map[int64]*programs.Stage
	tensors   []network.Tensor
	updates   *programs.Updates
	versions  []programs.List // those after the step's first updates; nil where no longer needed
	gradients programs.List
	state     programs.State
}

func (r *replay) open() error {
	for s := range r.job.Stages {
		stage := &replayed{}
		r.stages = append(r.stages, stage)
		compiled, err := r.cache.segment(r.device.Backend, stages.Segment{Layers: r.job.Stages[s].Layers})
		if err != nil {
			return fmt.Errorf("stage %d: %w", s, err)
		}
		stage.bySize, stage.tensors = compiled.bySize, compiled.any().Parameters()
		first, err := programs.InitializeTensors(r.device, stage.tensors, r.job.Seed)
		if err != nil {
			return err
		}
		stage.versions = []programs.List{first}
		if stage.gradients, err = programs.Zeros(r.device, stage.tensors); err != nil {
			return err
		}
		if stage.updates, err = r.cache.updates(r.device.Backend, stage.tensors); err != nil {
			return err
		}
	}
	return nil
}

// step replays one step of the pipeline, which begins and ends empty.
func (r *replay) step(ctx context.Context, n int, b Batch, first, last bool) error {
	layers := r.job.Network.Layers
	output := layers[len(layers)-1].Output
	input, target := int(layers[0].Input.Elements()), int(output.Elements())/output[len(output)-1]
	from, loss := 0, 0.0
	for m, size := range r.job.Samples {
		samples := int(size)
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := b.upload(r.device, from*input, (from+samples)*input, r.stages[0].bySize[int64(samples)].InputDimensions())
		if err != nil {
			return err
		}
		draw := programs.Draw{Seed: r.job.Seed, Step: n, Sample: from}
		sum, err := r.microbatch(m, samples, x, b.Targets[from*target:(from+samples)*target], draw, last)
		if err != nil {
			return err
		}
		loss += sum
		if first && m == len(r.job.Samples)-1 {
			gradients, err := r.read(func(s *replayed) programs.List { return s.gradients })
			if err != nil {
				return err
			}
			r.record.Gradients = []map[string][]float32{gradients}
		}
		for s := range r.stages {
			if err := r.update(s, m); err != nil {
				return err
			}
		}
		from += samples
	}
	r.record.Losses = append(r.record.Losses, loss/float64(counted(b.Targets)))
	for _, s := range r.stages {
		s.versions = s.versions[len(s.versions)-1:]
	}
	return nil
}

// version returns the one that a stage uses for a microbatch of a step.
func (r *replay) version(stage, microbatch int) int {
	return max(0, microbatch-(len(r.stages)-1-stage))
}

// microbatch passes a microbatch through all stages and back, and returns the sum
// of its losses. It uses up the input.
func (r *replay) microbatch(m, samples int, input *programs.Tensor, targets []int32, draw programs.Draw, keep bool) (loss float64, err error) {
	sum, saved, err := r.forward(m, samples, input, targets, draw)
	if err != nil {
		return 0, err
	}
	values, err := programs.Read[float32](sum)
	sum.Release()
	if err != nil {
		return 0, err
	}
	if keep {
		outputs, err := programs.Read[float32](saved[len(saved)-1].Outputs())
		if err != nil {
			return 0, err
		}
		r.record.Outputs = append(r.record.Outputs, outputs...)
	}
	gradient, err := programs.Upload(r.device, meanOver(float64(counted(targets))))
	for s := len(r.stages) - 1; s >= 0 && err == nil; s-- {
		stage, given := r.stages[s], gradient
		gradient, err = stage.bySize[int64(samples)].Backward(stage.versions[r.version(s, m)], saved[s], given, stage.gradients)
		given.Release()
	}
	return float64(values[0]), err
}

// forward passes a microbatch through all stages. It returns the sum of the losses
// and what every stage has saved.
func (r *replay) forward(m, samples int, x *programs.Tensor, targets []int32, draw programs.Draw) (*programs.Tensor, []*programs.Saved, error) {
	saved := make([]*programs.Saved, len(r.stages))
	for s, stage := range r.stages {
		program := stage.bySize[int64(samples)]
		var given, y *programs.Tensor
		var err error
		if program.Last() {
			if given, err = programs.Upload(r.device, targets, program.Targets()); err != nil {
				return nil, nil, err
			}
		}
		y, saved[s], err = program.Forward(stage.versions[r.version(s, m)], x, given, draw)
		x.Release()
		given.Release()
		if err != nil {
			return nil, nil, err
		}
		x = y
	}
	return x, saved, nil
}

// update makes a stage's next version after microbatch m, and drops what no later
// microbatch needs.
func (r *replay) update(s, m int) error {
	stage := r.stages[s]
	next := stage.versions[m].Retain()
	err := stage.updates.Step(next, stage.gradients, &stage.state)
	stage.versions = append(stage.versions, next)
	used := min(m+1, r.version(s, m+1))
	if m == len(r.job.Samples)-1 { // the step ends
		used = m + 1
	}
	for v := range used {
		stage.versions[v].Release()
		stage.versions[v] = nil
	}
	return err
}

func (r *replay) read(list func(*replayed) programs.List) (map[string][]float32, error) {
	all := map[string][]float32{}
	for _, s := range r.stages {
		if err := readInto(all, s.tensors, list(s)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *replay) close() {
	for _, s := range r.stages {
		for _, v := range s.versions {
			v.Release()
		}
		s.gradients.Release()
		s.state.Release()
	}
	r.cache.close()
}
