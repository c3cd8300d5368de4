package psim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/schedules/graph"
)

// byKind adds up the time and the bytes of the tasks of a trace by kind.
func byKind(p *psim.Prediction) (took map[graph.Kind]time.Duration, bytes map[graph.Kind]int64) {
	took, bytes = map[graph.Kind]time.Duration{}, map[graph.Kind]int64{}
	for i, task := range p.Trace.Graph.Tasks() {
		took[task.Kind] += p.Trace.Span(i).Duration()
		bytes[task.Kind] += task.Bytes
	}
	return took, bytes
}

// With the tasks of a loop the losses leave the forwards, and zeroing is all that the step adds.
func TestLoopAddsZeroing(t *testing.T) {
	split := []string{"schedule.name=zb-h1"}
	for name, sets := range map[string][]string{
		"ddp": nil, "fsdp": nil, "gpipe": nil, "1f1b": split, "gpt2-4090d-single": nil, "gpt2-4090d-data-parallel": nil,
		"vgg16-cpu-model": nil, "vgg16-cpu-fsdp": nil, "llama3-70b": {"parallel.data=1"},
	} {
		t.Run(name, func(t *testing.T) {
			step := predicted(t, name, append(sets, "machine.host.operation=0us", "schedule.detail=step")...)
			loop := predicted(t, name, append(sets, "machine.host.operation=0us", "schedule.detail=loop")...)
			was, moved := byKind(step)
			is, bytes := byKind(loop)
			require.Zero(t, was[graph.Loss]+was[graph.Zero])
			require.Positive(t, is[graph.Loss])
			require.Equal(t, was[graph.Forward], is[graph.Forward]+is[graph.Loss])
			for _, k := range []graph.Kind{graph.Backward, graph.InputGradient, graph.WeightGradient, graph.Optimizer} {
				require.Equal(t, was[k], is[k], k)
			}
			require.Equal(t, moved[graph.AllReduce]+moved[graph.AllGather], bytes[graph.AllReduce]+bytes[graph.AllGather])

			zeroing := is[graph.Zero].Seconds()
			require.Positive(t, zeroing)
			require.GreaterOrEqual(t, loop.Result.StepTime, step.Result.StepTime)
			require.LessOrEqual(t, loop.Result.StepTime, step.Result.StepTime+zeroing)
			for r, rank := range loop.Result.Ranks {
				require.InDelta(t, loop.Result.StepTime, rank.Compute+rank.ExposedCommunication+rank.Optimizer+rank.Idle, 1e-9)
				require.Greater(t, rank.Optimizer, step.Result.Ranks[r].Optimizer)
			}
		})
	}
}

// Copies through a host's link lengthen a step, on devices that are not cores. The bytes that they
// move are twice those of the sums; of a gather a rank brings its part.
func TestGlooCopies(t *testing.T) {
	const gloo, fast = "parallel.collectives=gloo", "machine.host_link.bandwidth=1000000TB/s"
	for name, sets := range map[string][]string{
		"ddp": nil, "fsdp": nil, "1f1b": {"parallel.data=2"},
		"gpt2-4090d-data-parallel": {"machine.device=v100-32gb-sxm"},
		"llama3-70b":               {"parallel.zero=1"},
	} {
		t.Run(name, func(t *testing.T) {
			staged, free := predicted(t, name, append(sets, gloo)...), predicted(t, name,
				append(sets, gloo, fast, "machine.host_link.latency=0s")...)
			nccl := predicted(t, name, append(sets, "parallel.collectives=nccl")...)
			require.Greater(t, staged.Result.StepTime, free.Result.StepTime)
			took, bytes := byKind(staged)
			require.Zero(t, bytes[graph.AllToAll]+bytes[graph.ReduceScatter], "gloo has none")
			var brought int64
			for _, task := range staged.Trace.Graph.Tasks() {
				if n := int64(1); task.Kind.Collective() {
					if task.Kind == graph.AllGather {
						n = int64(staged.Trace.Graph.Members(task.Peer))
					}
					brought += (task.Bytes + n - 1) / n
				}
			}
			require.Equal(t, brought, bytes[graph.ToHost])
			require.Equal(t, bytes[graph.AllReduce]+bytes[graph.AllGather], bytes[graph.FromHost])
			rate := float64(staged.Experiment.Machine.HostLink.Bandwidth)
			require.InEpsilon(t, float64(bytes[graph.ToHost]+bytes[graph.FromHost])/rate,
				(took[graph.ToHost] + took[graph.FromHost]).Seconds(), 1e-4)
			_, bytes = byKind(nccl)
			require.Zero(t, bytes[graph.ToHost]+bytes[graph.FromHost])
		})
	}
	cpu := predicted(t, "vgg16-cpu-ddp", gloo, "machine.host_link=pcie3")
	require.Equal(t, predicted(t, "vgg16-cpu-ddp").Result.StepTime, cpu.Result.StepTime, "cores work in that memory")
	unknown := predicted(t, "ddp", gloo, "machine.device=tpu-v4", "train.precision=bf16")
	require.Contains(t, unknown.Result.Warnings, `parallel.collectives = "gloo": copies between tpu-v4 and its host `+
		`are left out, since its host_link is unknown; give machine.host_link, such as "pcie5"`)
}

// What a loop or gloo cannot be is one error that names the key.
func TestDetailErrors(t *testing.T) {
	experts := []string{"model.preset=mixtral-8x7b", "parallel.expert=2", "parallel.data=2"}
	for _, c := range []struct {
		name string
		sets []string
		want string
	}{
		{"ddp", []string{"schedule.detail=steps"}, `schedule.detail = "steps": must be step or loop`},
		{"model-parallel", []string{"schedule.detail=loop"}, "schedule.detail: has no meaning with [times]"},
		{"ring-allreduce", []string{"schedule.detail=loop"}, "schedule.detail: has no meaning with [collective]"},
		{"1f1b", []string{"schedule.name=pipedream", "model.tied=false", "parallel.data=1", "schedule.detail=loop"},
			`schedule.detail = "loop": pipedream updates a stage after every microbatch`},
		{"ddp", append(experts, "schedule.detail=loop"), `schedule.detail = "loop": is not modelled with parallel.expert = 2`},
		{"ddp", append(experts, "parallel.collectives=gloo"), `parallel.collectives = "gloo": has no all-to-all`},
		{"ddp", []string{"machine.host_link=pcie9"}, `machine.host_link = "pcie9": not in the catalog`},
	} {
		config, err := psim.Load(c.name, c.sets...)
		if err == nil {
			_, err = psim.Predict(context.Background(), config)
		}
		require.ErrorContains(t, err, c.want)
	}
}
