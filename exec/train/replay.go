package train

import (
	"context"
	"fmt"
	"slices"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
)

// A Replay trains what a pipeline with stashed weights trains (Narayanan et al. 2019,
// "PipeDream"), without a pipeline: on one device, one microbatch after another, with the
// versions of the weights that the rule names. Of P stages, stage s passes microbatch m of a
// step, forward and backward, with its weights after max(0, m − (P − 1 − s)) of the step's
// updates, and makes the next update from that gradient. It uses the job's network, layers,
// samples and optimizer, but not its graph.
type Replay struct {
	Job    Job
	Device *backend.LocalDevice
	Batch  func(step int) data.StepBatch
	Options
}

// Run trains, and returns the same record as Train.
func (o Replay) Run(ctx context.Context) (*Record, error) {
	o.Job.Recompute = kernels.SaveAll
	r := &replay{job: o.Job, device: o.Device, cache: newProgramCache(o.Job), record: &Record{}}
	defer r.close()
	if err := r.open(); err != nil {
		return nil, err
	}
	total := o.Total()
	for n := range total {
		if o.Progress != nil {
			o.Progress(n, total)
		}
		if err := r.step(ctx, replayedStep{n, o.Batch(n), n == 0, n == o.outputStep()}); err != nil {
			return nil, err
		}
	}
	all, err := r.read(func(s *replayedStage) backend.Tensors { return s.versions[len(s.versions)-1] })
	for _, s := range r.stages {
		if err == nil {
			err = readInto(all, s.frozen, s.constants)
		}
	}
	r.record.Parameters = []map[string][]float32{all}
	return r.record, err
}

// A replay holds the state of a Replay.
type replay struct {
	job    Job
	device *backend.LocalDevice
	cache  *programCache
	stages []*replayedStage
	record *Record
}

// A replayedStage has the versions of a stage's weights.
type replayedStage struct {
	bySize    map[int64]*kernels.Programs
	tensors   []network.Tensor
	frozen    []network.Tensor
	constants backend.Tensors // the values of frozen tensors
	updates   *kernels.Updates
	versions  []backend.Tensors // by updates of the step; nil when no longer needed
	gradients backend.Tensors
	state     kernels.OptimizerState
}

// weights returns a version of a stage's weights, and the frozen ones behind them.
func (s *replayedStage) weights(version int) backend.Tensors {
	return slices.Concat(s.versions[version], s.constants)
}

// A replayedStep is one step, with its index.
type replayedStep struct {
	index          int
	batch          data.StepBatch
	first, outputs bool // whether to record gradients, and outputs
}

// A replayedMicrobatch is one microbatch of a step, with its index.
type replayedMicrobatch struct {
	index   int
	samples int64
	input   *backend.DeviceTensor
	targets []int32
	seed    kernels.MaskSeed
	record  bool // the outputs
}

// open compiles the programs and makes the first parameters.
func (r *replay) open() error {
	for s := range r.job.Stages {
		stage := &replayedStage{}
		r.stages = append(r.stages, stage)
		planned := stages.Segment{Layers: r.job.Stages[s].Layers}
		compiled, err := r.cache.segment(r.device.Backend, planned, kernels.WholeBackward)
		if err != nil {
			return fmt.Errorf("stage %d: %w", s, err)
		}
		stage.bySize, stage.tensors = compiled.bySize, compiled.any().Parameters()
		stage.frozen = compiled.any().Frozen()
		if stage.constants, err = kernels.InitializeTensors(r.device, stage.frozen, r.job.Seed); err != nil {
			return err
		}
		first, err := kernels.InitializeTensors(r.device, stage.tensors, r.job.Seed)
		if err != nil {
			return err
		}
		stage.versions = []backend.Tensors{first}
		if stage.gradients, err = kernels.Zeros(r.device, stage.tensors); err != nil {
			return err
		}
		if stage.updates, err = r.cache.updates(r.device.Backend, stage.tensors); err != nil {
			return err
		}
	}
	return nil
}

// step replays one step of the pipeline, which begins and ends empty.
func (r *replay) step(ctx context.Context, s replayedStep) error {
	from, loss := 0, 0.0
	for m, samples := range r.job.Samples {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.cut(s, m, from)
		if err != nil {
			return err
		}
		sum, err := r.microbatch(b)
		if err != nil {
			return err
		}
		loss += sum
		if s.first && m == len(r.job.Samples)-1 {
			gradients, err := r.read(func(s *replayedStage) backend.Tensors { return s.gradients })
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
		from += int(samples)
	}
	r.record.Losses = append(r.record.Losses, loss/float64(data.Counted(s.batch.Targets)))
	for _, s := range r.stages {
		s.versions = s.versions[len(s.versions)-1:]
	}
	return nil
}

// cut takes a microbatch, which begins at a sample, from a step's batch.
func (r *replay) cut(s replayedStep, m, from int) (b replayedMicrobatch, err error) {
	layers, to := r.job.Network.Layers, from+int(r.job.Samples[m])
	output := layers[len(layers)-1].Output
	input, target := int(layers[0].Input.Elements()), int(output.Elements())/output[len(output)-1]
	b = replayedMicrobatch{
		index: m, samples: r.job.Samples[m], targets: s.batch.Targets[from*target : to*target],
		seed: kernels.MaskSeed{Seed: r.job.Seed, Step: s.index, Sample: from}, record: s.outputs,
	}
	dimensions := r.stages[0].bySize[b.samples].InputDimensions()
	b.input, err = UploadInputs(r.device, s.batch.Inputs(from*input, to*input), dimensions)
	return b, err
}

// version returns the version of the weights that a stage uses for a microbatch of a step.
func (r *replay) version(stage, microbatch int) int {
	return max(0, microbatch-(len(r.stages)-1-stage))
}

// microbatch passes a microbatch through all stages and back, and returns the sum of its
// losses. It uses up the input.
func (r *replay) microbatch(b replayedMicrobatch) (loss float64, err error) {
	sum, saved, err := r.forward(b)
	if err != nil {
		return 0, err
	}
	values, err := backend.Read[float32](sum)
	sum.Release()
	if err != nil {
		return 0, err
	}
	if b.record {
		outputs, err := backend.Read[float32](saved[len(saved)-1].Outputs())
		if err != nil {
			return 0, err
		}
		r.record.Outputs = append(r.record.Outputs, outputs...)
	}
	gradient, err := backend.Upload(r.device, meanOver(float64(data.Counted(b.targets))))
	for s := len(r.stages) - 1; s >= 0 && err == nil; s-- {
		stage, given := r.stages[s], gradient
		if stage.bySize[b.samples].ForwardOnly() {
			saved[s].Release()
			given.Release()
			gradient = nil
			continue
		}
		weights := stage.weights(r.version(s, b.index))
		gradient, err = stage.bySize[b.samples].Backward(weights, saved[s], given, stage.gradients)
		given.Release()
	}
	return float64(values[0]), err
}

// forward passes a microbatch through all stages. It returns the sum of the losses and the
// tensors that every stage has saved.
func (r *replay) forward(b replayedMicrobatch) (*backend.DeviceTensor, []*kernels.Saved, error) {
	x, saved := b.input, make([]*kernels.Saved, len(r.stages))
	for s, stage := range r.stages {
		program := stage.bySize[b.samples]
		var targets, y *backend.DeviceTensor
		var err error
		if program.Last() {
			if targets, err = backend.Upload(r.device, b.targets, program.Targets()); err != nil {
				return nil, nil, err
			}
		}
		y, saved[s], err = program.Forward(stage.weights(r.version(s, b.index)), x, targets, b.seed)
		x.Release()
		targets.Release()
		if err != nil {
			return nil, nil, err
		}
		x = y
	}
	return x, saved, nil
}

// update makes a stage's next version after microbatch m, and drops the versions that no later
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

// read reads tensors of all stages, by name.
func (r *replay) read(list func(*replayedStage) backend.Tensors) (map[string][]float32, error) {
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
		s.constants.Release()
		s.state.Release()
	}
	r.cache.close()
}
