package psim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
)

// A form is a network in the terms of Megatron-LM's published formulas
// (megatron/training/theoretical_memory_usage.py), which count no router.
type form struct {
	hidden, ffn, heads, groups, head, vocab, layers, sequence int64
	// Of a mixture; the first so many layers are dense.
	experts, perToken, expertFFN, shared, dense int64
	// Of latent attention.
	queryRank, rank, nope, rope, value int64
}

// forms are grouped queries with an MLP, with a mixture in every block, and DeepSeek-V3's kind.
var forms = map[string]form{
	"dense":   {hidden: 64, ffn: 192, heads: 8, groups: 4, head: 16, vocab: 256, layers: 8, sequence: 32},
	"mixture": {hidden: 64, ffn: 96, heads: 8, groups: 8, head: 8, vocab: 256, layers: 8, sequence: 32, experts: 8, perToken: 2, expertFFN: 96},
	"latent": {
		hidden: 64, ffn: 192, heads: 8, vocab: 256, layers: 8, sequence: 32, experts: 8, perToken: 3, expertFFN: 32, shared: 1, dense: 3,
		queryRank: 24, rank: 16, nope: 8, rope: 4, value: 8,
	},
}

// settings describes it to psim.
func (f form) settings() []string {
	sets := []string{
		`model.family=mixtral`, fmt.Sprint("model.hidden=", f.hidden), fmt.Sprint("model.ffn_hidden=", f.ffn), fmt.Sprint("model.heads=", f.heads),
		fmt.Sprint("model.vocab=", f.vocab), fmt.Sprint("model.layers=", f.layers), fmt.Sprint("model.sequence_length=", f.sequence),
	}
	if f.experts == 0 {
		sets[0] = "model.family=llama"
	} else {
		sets = append(sets, fmt.Sprint("model.experts=", f.experts), fmt.Sprint("model.experts_per_token=", f.perToken), fmt.Sprint("model.expert_hidden=", f.expertFFN))
	}
	if f.shared > 0 {
		sets = append(sets, fmt.Sprint("model.shared_experts=", f.shared), fmt.Sprint("model.dense_layers=", f.dense))
	}
	if f.rank == 0 {
		return append(sets, fmt.Sprint("model.kv_heads=", f.groups), fmt.Sprint("model.head_dim=", f.head))
	}
	return append(sets, fmt.Sprint("model.q_lora_rank=", f.queryRank), fmt.Sprint("model.kv_lora_rank=", f.rank), fmt.Sprint("model.qk_nope_head_dim=", f.nope),
		fmt.Sprint("model.qk_rope_head_dim=", f.rope), fmt.Sprint("model.v_head_dim=", f.value))
}

// attention counts the parameters of a layer's attention on one of t devices: what makes
// latent vectors, and their norms, each has whole.
func (f form) attention(t int64) int64 {
	if f.rank == 0 {
		projection := f.heads * f.head
		return 2 * f.hidden * projection * (f.heads + f.groups) / f.heads / t
	}
	divided := f.queryRank*f.heads*(f.nope+f.rope) + f.rank*f.heads*(f.nope+f.value) + f.heads*f.value*f.hidden
	return divided/t + f.queryRank*(f.hidden+1) + f.rank*(f.hidden+1) + f.hidden*f.rope
}

// layer counts the parameters of a layer on a device, experts and the rest apart: gated MLPs
// are three products, and norms are whole on every device.
func (f form) layer(i, tensor, expert int64) (rest, experts int64) {
	rest = f.attention(tensor) + 2*f.hidden
	if f.experts == 0 || i < f.dense {
		return rest + 3*f.hidden*f.ffn/tensor, 0
	}
	router := f.hidden * f.experts
	if expert == 1 {
		expert = tensor // which divides each
	}
	return rest + router + 3*f.hidden*f.shared*f.expertFFN/tensor, 3 * f.hidden * f.expertFFN * f.experts / expert
}

// stage counts them for a stage of several: of the first with the embedding, of the last with
// norm and head.
func (f form) stage(s, stages, tensor, expert int64) (rest, experts int64) {
	each := f.layers / stages
	for i := s * each; i < (s+1)*each; i++ {
		r, e := f.layer(i, tensor, expert)
		rest, experts = rest+r, experts+e
	}
	if s == 0 {
		rest += f.vocab * f.hidden / tensor
	}
	if s == stages-1 {
		rest += f.hidden + f.vocab*f.hidden/tensor
	}
	return rest, experts
}

// A layout is how devices are laid out, in which every formula is tried.
type layout struct{ tensor, stages, data, expert int64 }

// layouts lists those that a form can have: an expert group divides the devices of a stage.
func (f form) layouts() (list []layout) {
	for _, tensor := range []int64{1, 2, 4} {
		for _, stages := range []int64{1, 2, 4} {
			for _, data := range []int64{1, 2, 4} {
				for _, expert := range []int64{1, 2, 4, 8} {
					if expert == 1 || f.experts > 0 && tensor*data%expert == 0 {
						list = append(list, layout{tensor, stages, data, expert})
					}
				}
			}
		}
	}
	return list
}

// config makes the configuration of a form in a layout.
func (f form) config(t *testing.T, l layout, sets ...string) *configs.Config {
	layers := make([]string, l.stages)
	for s := range layers {
		n := f.layers / l.stages
		if s == 0 {
			n++
		}
		if s == len(layers)-1 {
			n += 2
		}
		layers[s] = fmt.Sprint(n)
	}
	all := append(f.settings(), fmt.Sprint("parallel.tensor=", l.tensor), fmt.Sprint("schedule.stages=", l.stages), fmt.Sprint("parallel.data=", l.data),
		fmt.Sprint("parallel.expert=", l.expert), fmt.Sprint("parallel.sequence=", l.tensor > 1), "schedule.partition=["+strings.Join(layers, ",")+"]")
	c, err := configs.Parse("form", []byte(`schedule = {name = "1f1b", microbatches = 8}
train = {precision = "bf16", gradients = "fp32"}
batch = {micro = 1}
machine = {device = "h100-80gb-sxm"}`), append(all, sets...)...)
	require.NoError(t, err)
	return c
}

// divide plans the stages of a form in a layout.
func (f form) divide(t *testing.T, l layout, sets ...string) *stages.Staged {
	cut, err := f.config(t, l, sets...).Cut(func(*configs.Config) {})
	require.NoError(t, err, "%+v", l)
	return cut.Divide().Workload
}

// Every device holds 18 bytes of each of its parameters, or with the distributed optimizer
// 6 + 12/d: d are the replicas, or of experts the devices that have the same ones.
func TestMegatronStates(t *testing.T) {
	for name, f := range forms {
		for _, l := range f.layouts() {
			for zero := range 2 {
				staged := f.divide(t, l, fmt.Sprint("parallel.zero=", zero))
				lasting := memory.PersistentBreakdown(staged, int(l.stages*l.data))
				var whole int64
				for s := range l.stages {
					rest, experts := f.stage(s, l.stages, l.tensor, l.expert)
					whole += rest + experts
					d, sharers := int64(1), int64(1)
					if zero == 1 {
						d, sharers = l.data, l.data
						if l.expert > 1 {
							sharers = l.tensor * l.data / l.expert
						}
					}
					share := func(n, of int64) int64 { return (12*n + of - 1) / of }
					optimizer := share(rest, d) + share(experts, sharers)
					if sharers == d {
						optimizer = share(rest+experts, d)
					}
					want := memory.Breakdown{Parameters: 2 * (rest + experts), Gradients: 4 * (rest + experts), Optimizer: optimizer}
					for replica := range l.data {
						require.Equal(t, want, lasting[replica*l.stages+s], "%s, %+v, ZeRO %d, stage %d", name, l, zero, s)
					}
				}
				if l.tensor == 1 && l.expert == 1 {
					require.Equal(t, whole, staged.Network.Parameters(), name)
				}
			}
		}
	}
}

// What the busiest device of an expert group does beyond the mean is time, and no more work
// of all devices; room for rows that no token fills is executed, and no work of the model.
func TestWorkOfUnevenExperts(t *testing.T) {
	work := func(sets ...string) (model, hardware, step float64) {
		p, err := psim.Predict(context.Background(), forms["latent"].config(t, layout{1, 2, 4, 4}, append(sets, "model.attention=flash")...))
		require.NoError(t, err)
		return p.Result.ModelFLOPs, p.Result.HardwareFLOPs, p.Result.StepTime
	}
	for _, recompute := range []string{"none", "moe", "full"} {
		set := "train.recompute=" + recompute
		model, hardware, step := work(set)
		uneven, executed, longer := work(set, "model.imbalance=2")
		require.Equal(t, model, uneven)
		require.InEpsilon(t, hardware, executed, 1e-12, "%s %g %g", recompute, hardware, executed)
		require.Greater(t, longer, step)
		padded, executed, longer := work(set, "model.capacity=2")
		require.Equal(t, model, padded)
		require.Greater(t, executed, hardware)
		require.Greater(t, longer, step)
	}
}
