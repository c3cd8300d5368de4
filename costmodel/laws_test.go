package costmodel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// drawModel draws a small transformer of any family that every group of drawGroup
// divides.
func drawModel(t *rapid.T) models.Model {
	family := rapid.SampledFrom([]string{"gpt", "llama", "mixtral"}).Draw(t, "family")
	m := models.Model{
		Family: family, Layers: rapid.IntRange(1, 3).Draw(t, "layers"), Heads: 4, Hidden: 4 * rapid.IntRange(1, 64).Draw(t, "head"),
		FFNHidden: 4 * rapid.IntRange(1, 128).Draw(t, "ffn"), Vocab: 4 * rapid.IntRange(1, 64).Draw(t, "vocab"),
		SequenceLength: 4 * rapid.IntRange(1, 32).Draw(t, "sequence"),
		Attention:      rapid.SampledFrom([]string{models.AttentionUnfused, models.AttentionFlash}).Draw(t, "attention"),
		Kernels:        rapid.SampledFrom([]string{models.KernelsFused, "eager", "compiled", "te"}).Draw(t, "kernels"),
	}
	if family == "mixtral" {
		m.Experts, m.ExpertsPerToken = 3, rapid.IntRange(1, 3).Draw(t, "active")
		m.SharedExperts, m.MoEEvery, m.DenseLayers = rapid.IntRange(0, 2).Draw(t, "shared"), rapid.IntRange(1, 2).Draw(t, "every"), rapid.IntRange(0, 1).Draw(t, "dense")
		if m.Layers/m.MoEEvery*m.MoEEvery <= m.DenseLayers { // no block would have experts
			m.MoEEvery, m.DenseLayers = 1, 0
		}
		m.ExpertHidden = 4 * rapid.IntRange(0, 16).Draw(t, "expert")
	}
	if family != "gpt" {
		drawBlock(t, &m)
	}
	return m
}

// drawBlock draws what a block of llama or mixtral may have.
func drawBlock(t *rapid.T, m *models.Model) {
	may := func(key string) bool { return rapid.IntRange(0, 3).Draw(t, key) == 0 }
	if may("latent") {
		m.KVLoraRank, m.QLoraRank = 4*rapid.IntRange(1, 8).Draw(t, "rank"), 4*rapid.IntRange(0, 8).Draw(t, "query_rank")
		m.QKNopeHeadDim, m.QKRopeHeadDim, m.VHeadDim = 8, 4, 4*rapid.IntRange(1, 8).Draw(t, "value")
	} else {
		m.QKNorm = may("qk_norm")
		m.WholeQKNorm = m.QKNorm && may("whole_qk_norm")
	}
	m.PostNorms, m.AttentionBias, m.MLPBias, m.Sinks = may("post_norms"), may("attention_bias"), may("mlp_bias"), may("sinks")
	m.ParallelBlock = m.Family == "llama" && !m.PostNorms && may("parallel")
	m.MTPLayers = rapid.IntRange(0, 3).Draw(t, "mtp") / 2
	if may("window") {
		m.Window, m.FullAttentionEvery = 8, rapid.IntRange(0, 2).Draw(t, "full")
	}
}

// drawWorkload draws the training of one, over two pipeline ranks and replicas.
func drawWorkload(t *rapid.T) (stages.Workload, costmodel.Machine) {
	g := group.Group{Devices: 1}
	if rapid.Bool().Draw(t, "divided") {
		g = drawGroup(t)
	}
	n, err := drawModel(t).On(g)
	require.NoError(t, err)
	samples := rapid.Int64Range(1, 9).Draw(t, "samples")
	w := workload(t, n, []int32{0, 1}, samples, samples)
	w.Replicas = rapid.IntRange(1, 3).Draw(t, "replicas")
	w.Zero = rapid.IntRange(0, 2).Draw(t, "zero")
	w.Training = training.Options{
		Precision: rapid.SampledFrom([]string{"fp32", "bf16", "fp8", "mxfp8", "nvfp4"}).Draw(t, "precision"), Clip: rapid.Bool().Draw(t, "clip"),
		Gradients: "fp32", Recompute: rapid.SampledFrom([]string{"none", "selective", "full"}).Draw(t, "recompute"),
	}
	m := machine()
	m.Device.Multiprocessors = rapid.SampledFrom([]int{0, 5, 108}).Draw(t, "multiprocessors")
	m.Tensor, m.Network, m.DevicesPerNode = g.Devices, m.Link, rapid.SampledFrom([]int{0, 4, 8}).Draw(t, "devices_per_node")
	m.NICsPerNode = rapid.IntRange(0, 8).Draw(t, "nics")
	m.Network.Bandwidth = 1e9
	return w, m
}

// times prices every task: how long it takes, its latency included.
func times(t tester, w stages.Workload, m costmodel.Machine, g *graph.Graph) []int64 {
	t.Helper()
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	list := make([]int64, g.Len())
	for i := range int32(g.Len()) {
		c := costs.Task(new(g.Task(i)))
		list[i] = int64(c.Busy + c.Delay)
	}
	return list
}

// No task takes longer for a higher rate of any kind or a lower latency, or less
// time for more work. That a step takes no longer where no task does is a law of
// package sim.
func TestTimeIsMonotone(t *testing.T) {
	faster := map[string]func(*costmodel.Machine, float64){
		"flops": func(m *costmodel.Machine, by float64) {
			for _, r := range []*units.FLOPS{&m.Device.Peak.FP32, &m.Device.Peak.BF16, &m.Device.Peak.FP8, &m.Device.Peak.FP4} {
				*r = units.FLOPS(float64(*r) * by)
			}
		},
		"memory": func(m *costmodel.Machine, by float64) {
			m.Device.MemoryBandwidth = units.Rate(float64(m.Device.MemoryBandwidth) * by)
		},
		"link": func(m *costmodel.Machine, by float64) { m.Link.Bandwidth = units.Rate(float64(m.Link.Bandwidth) * by) },
		"network": func(m *costmodel.Machine, by float64) {
			m.Network.Bandwidth = units.Rate(float64(m.Network.Bandwidth) * by)
		},
		"launch": func(m *costmodel.Machine, by float64) {
			m.Device.Launch = units.Duration(float64(m.Device.Launch) / by)
		},
		"half rows": func(m *costmodel.Machine, by float64) { m.Device.HalfRows /= by },
		"attention": func(m *costmodel.Machine, by float64) { m.Device.Attention = by },
		"latency": func(m *costmodel.Machine, by float64) {
			m.Link.Latency = units.Duration(float64(m.Link.Latency) / by)
			m.Network.Latency = units.Duration(float64(m.Network.Latency) / by)
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawWorkload(t)
		w = synced(w, 100_000, false)
		g := graphOf(t, w, orderOf(t, "gpipe", w))
		base := times(t, w, m, g)
		what := rapid.SampledFrom([]string{"flops", "memory", "link", "network", "launch", "half rows", "attention", "latency"}).Draw(t, "what")
		by := rapid.SampledFrom([]float64{1.001, 2, 1e6}).Draw(t, "by")
		faster[what](&m, by)
		for i, after := range times(t, w, m, g) {
			require.LessOrEqual(t, after, base[i], "%s: %s", what, g.Describe(int32(i)))
		}
		more := w
		more.Samples = []int64{w.Samples[0] + 1, w.Samples[1] + 1}
		more = synced(more, 100_000, false)
		larger := graphOf(t, more, orderOf(t, "gpipe", more))
		base = times(t, w, m, g)
		for i, after := range times(t, more, m, larger) {
			require.GreaterOrEqual(t, after, base[i], "more samples: %s", g.Describe(int32(i)))
		}
	})
}

// ends lists when the parts of the backwards of a step end, each stage by itself: its
// host launches one part after another, and its device waits for it.
func ends(t tester, w stages.Workload, m costmodel.Machine) []time.Duration {
	t.Helper()
	g := graphOf(t, w, orderOf(t, "ddp", w))
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	var list []time.Duration
	var launched, done time.Duration
	for i := range int32(g.Len()) {
		task := new(g.Task(i))
		if task.Kind != graph.Backward || int(task.Microbatch) != len(w.Samples)-1 || int(task.Rank) >= g.Shape.Ranks {
			continue
		}
		c := costs.Task(task)
		if costs.Host != nil {
			done = max(done, launched+c.LaunchLead)
			launched += c.Launch
		}
		done += c.Busy
		list = append(list, done)
	}
	return list
}

// Each tensor's gradient is there no later with a higher rate, a shorter time of the host
// or of a launch, or less of any size.
func TestGradientsAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		training := rapid.SampledFrom(recomputations()).Draw(t, "recompute")
		draw := func(name string) units.Duration {
			return units.Duration(rapid.Int64Range(0, 100_000).Draw(t, name))
		}
		on := machine()
		on.Tensor, on.Host = rapid.SampledFrom([]int{1, 2}).Draw(t, "tensor"), costmodel.HostTimes{Operation: draw("operation"), Task: draw("task"), Layer: draw("layer")}
		on.Device.Launch = draw("launch")
		group := group.Group{Devices: on.Tensor, Overlap: rapid.Bool().Draw(t, "overlap")}
		of := func(m models.Model, on costmodel.Machine) []time.Duration {
			n, err := m.On(group)
			require.NoError(t, err)
			w := synced(workload(t, n, []int32{0}, 2), 0, true)
			w.Replicas, w.Training = 2, training
			return ends(t, w, on)
		}
		before := of(m, on)
		what := rapid.SampledFrom([]string{"hidden", "ffn", "vocab", "sequence", "flops", "memory", "launch", "operation", "task", "layer"}).Draw(t, "what")
		slower := map[string]func(){
			"hidden": func() { m.Hidden *= 2 }, "ffn": func() { m.FFNHidden *= 2 }, "vocab": func() { m.Vocab *= 2 }, "sequence": func() { m.SequenceLength *= 2 },
			"flops": func() { on.Device.Peak.FP32 /= 2 }, "memory": func() { on.Device.MemoryBandwidth /= 2 }, "launch": func() { on.Device.Launch *= 2 },
			"operation": func() { on.Host.Operation *= 2 }, "task": func() { on.Host.Task *= 2 }, "layer": func() { on.Host.Layer *= 2 },
		}
		slower[what]()
		for k, after := range of(m, on) {
			require.LessOrEqual(t, before[k], after, "%s: part %d", what, k)
		}
	})
}

// No task ends before its last kernel has been launched, and each is as long as
// without a host.
func TestLaunchedBeforeItEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawWorkload(t)
		w = synced(w, 0, false)
		g := graphOf(t, w, orderOf(t, rapid.SampledFrom([]string{"gpipe", "zb-h1"}).Draw(t, "schedule"), w))
		free, err := costmodel.StepCosts(m, w.Staged(), g)
		require.NoError(t, err)
		m.Host = costmodel.HostTimes{
			Operation: units.Duration(rapid.Int64Range(0, 100_000).Draw(t, "operation")), Task: units.Duration(rapid.Int64Range(1, 100_000).Draw(t, "task")),
		}
		costs, err := costmodel.StepCosts(m, w.Staged(), g)
		require.NoError(t, err)
		for i := range int32(g.Len()) {
			c := costs.Task(new(g.Task(i)))
			require.Equal(t, free.Task(new(g.Task(i))).Busy, c.Busy)
			if g.Task(i).Kind.Compute() {
				require.GreaterOrEqual(t, c.LaunchLead+c.Busy, c.Launch, g.Describe(int32(i)))
				require.GreaterOrEqual(t, c.LaunchLead, time.Duration(m.Host.Task))
			}
		}
	})
}

// In a unit of bytes that is k times as small, sizes and bandwidths are k times as
// large and a collective takes as long, whatever its algorithm.
func TestUnitOfBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const k = 1024
		l := link.Link{
			Bandwidth: units.Rate(rapid.Float64Range(1e6, 1e12).Draw(t, "bandwidth")), Latency: units.Duration(rapid.Int64Range(0, 1e5).Draw(t, "latency")),
			Call: units.Duration(rapid.Int64Range(0, 1e5).Draw(t, "call")), Algorithm: rapid.SampledFrom(link.Algorithms()).Draw(t, "algorithm"),
		}
		ranks := rapid.IntRange(2, 9).Draw(t, "ranks")
		if rapid.Bool().Draw(t, "measured") {
			l.AllReduce = []link.SizeRange{
				{Ranks: 4, Call: 2e4, Bandwidth: 1e9}, {Ranks: 4, From: units.Bytes(rapid.Int64Range(1, 1e6).Draw(t, "from")), Call: 3e4, Bandwidth: 2e9},
			}
		}
		scaled := l
		scaled.Bandwidth *= k
		scaled.AllReduce = slices.Clone(l.AllReduce)
		for i := range scaled.AllReduce {
			scaled.AllReduce[i].From *= k
			scaled.AllReduce[i].Bandwidth *= k
		}
		bytes := rapid.Int64Range(0, 1e9).Draw(t, "bytes")
		for _, kind := range []graph.Kind{graph.AllReduce, graph.ReduceScatter, graph.AllGather} {
			require.Equal(t, l.CollectiveTime(kind, ranks, bytes), scaled.CollectiveTime(kind, ranks, k*bytes), kind)
		}
	})
}

// forwards is the memory that the forwards of one microbatch keep, over all ranks.
func forwards(t tester, w stages.Workload, m costmodel.Machine) int64 {
	t.Helper()
	w = synced(w, 0, false)
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	var sum int64
	for i := range int32(g.Len()) {
		if t := new(g.Task(i)); t.Kind == graph.Forward && t.Microbatch == 0 && int(t.Rank) < g.Shape.Ranks {
			sum += costs.Task(t).BytesAtStart
		}
	}
	return sum
}

// Memory is additive over ranks: cut into two stages, a network keeps the same
// activations and the same state, but for copies of tied parameters and rounding.
func TestMemoryAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawWorkload(t)
		w.Zero = 0
		one := w
		one.Layers, one.Placement.First = []int{len(w.Network.Layers)}, []int32{0}
		require.Equal(t, forwards(t, one, m), forwards(t, w, m))
		var copies int64
		for _, tied := range tiedSums(w) {
			copies += tied.Bytes / w.Training.State().Gradient
		}
		state := w.Training.State()
		perParameter := state.Parameter + state.Gradient + state.Optimizer
		// Of narrow weights' two copies, bits and scales are rounded up to bytes once a stage.
		rounding := 0.
		if w.Training.Narrow() {
			rounding = float64(4 * w.Replicas)
		}
		require.InDelta(t, total(memory.Persistent(one.Staged(), w.Replicas))+copies*perParameter*int64(w.Replicas), total(memory.Persistent(w.Staged(), 2*w.Replicas)), rounding)
	})
}
