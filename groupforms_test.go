package psim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
)

// A traffic is a layout with all that bytes between devices depend on, over one stage.
type traffic struct {
	layout
	context     int64
	method      string
	full, eight bool // recomputation; dispatch in 8 bits
	zero        int
}

// microbatches of one sequence make a step of form.config.
const microbatches = 8

// ring counts what a device sends of a tensor that a ring of n gathers or scatters.
func ring(n, bytes int64) int64 { return (n - 1) * bytes / n }

// tokens counts those that a device has of a sequence, where tensor parallelism divides what
// context does not.
func (x traffic) tokens(f form) int64 { return f.sequence / x.context }

// enters counts the bytes of gathering an input of so many features of a token: in F, as a
// scattered gradient in I, again for W, and in F again where that is repeated.
func (x traffic) enters(f form, features int64, repeated bool) int64 {
	return x.pairs(f, features, repeated) + ring(x.tensor, 2*x.tokens(f)*features)
}

// pairs counts those of what has no W: a gather and a scattered sum.
func (x traffic) pairs(f form, features int64, repeated bool) int64 {
	n := int64(2)
	if x.full && repeated {
		n++
	}
	return n * ring(x.tensor, 2*x.tokens(f)*features)
}

// tensorBytes follows Korthikanti et al. 2022, section 4.2.2, with latent vectors as
// Megatron-LM divides them: every device makes them for its part of the sequence.
func (x traffic) tensorBytes(f form) (bytes int64) {
	if x.tensor == 1 {
		return 0
	}
	for i := range f.layers {
		if f.rank > 0 {
			bytes += x.enters(f, f.queryRank, true) + x.enters(f, f.rank, true) + x.pairs(f, f.rope, true)
		} else {
			bytes += x.enters(f, f.hidden, true)
		}
		bytes += x.pairs(f, f.hidden, true) // leaves attention
		mixture := f.experts > 0 && i >= f.dense
		for _, mlp := range []bool{!mixture, mixture && f.shared > 0, mixture && x.expert == 1} {
			if mlp {
				bytes += x.enters(f, f.hidden, true) + x.pairs(f, f.hidden, true)
			}
		}
	}
	ends := x.pairs(f, f.hidden, false) + x.enters(f, f.hidden, false) // embedding, head
	loss := 3 * 2 * ring(x.tensor, 4*x.tokens(f))
	return microbatches * (bytes + ends + loss)
}

// contextBytes counts keys and values with their gradients, which a ring passes on and a
// gather brings, or what Ulysses exchanges: queries, keys, values and the context.
func (x traffic) contextBytes(f form) int64 {
	query, kv, context := f.heads*f.head, 2*f.groups*f.head, f.heads*f.head
	if f.rank > 0 {
		query, kv, context = f.heads*(f.nope+f.rope), f.heads*(f.nope+f.rope+f.value), f.heads*f.value
	}
	passes, each := int64(3), (x.context-1)*kv
	if x.method == "ulysses" {
		passes, each = 2, (x.context-1)*(query+kv+context)/x.context
	}
	if x.full {
		passes++
	}
	return microbatches * f.layers * passes * each * 2 * x.tokens(f) / x.tensor
}

// expertBytes counts two all-to-alls in F and two in B of every mixture, of a row of hidden
// features for every expert that a token goes to, all but the part that its own device has.
func (x traffic) expertBytes(f form) int64 {
	if x.expert == 1 {
		return 0
	}
	elements := x.tokens(f) / x.tensor * f.perToken * f.hidden
	away := func(bytes int64) int64 { return bytes * (x.expert - 1) / x.expert }
	dispatch, others := away(2*elements), away(2*elements)
	if x.eight {
		dispatch = away(elements + elements/128*4) // and a scale for 128 elements
	}
	passes := int64(1)
	if x.full {
		passes = 2
	}
	return microbatches * (f.layers - f.dense) * (passes*(dispatch+others) + 2*others)
}

// sums adds what a group of n devices does with the gradients of so many parameters.
func (x traffic) sums(want map[string]int64, dimension string, n, parameters int64) {
	switch {
	case n == 1 || parameters == 0:
	case x.zero == 0:
		want[dimension+" all-reduce"] = 2 * ring(n, 4*parameters)
	default:
		want[dimension+" reduce-scatter"], want[dimension+" all-gather"] = ring(n, 4*parameters), ring(n, 2*parameters)
	}
}

// want lists the bytes of all groups.
func (x traffic) want(f form) map[string]int64 {
	want := map[string]int64{}
	add := func(name string, bytes int64) {
		if bytes > 0 {
			want[name] = bytes
		}
	}
	add("tensor all-gather, reduce-scatter", x.tensorBytes(f))
	add("context "+map[string]string{"ring": "send", "all-gather": "all-gather, reduce-scatter", "ulysses": "all-to-all"}[x.method], x.contextBytes(f))
	add("expert all-to-all", x.expertBytes(f))
	rest, experts := f.stage(0, 1, x.tensor, x.expert)
	if x.expert == 1 {
		rest, experts = rest+experts, 0
	}
	x.sums(want, "data", x.data*x.context, rest)
	x.sums(want, "expert-data", x.tensor*x.context*x.data/x.expert, experts)
	return want
}

// traffics lists a grid of them.
func (f form) traffics() (list []traffic) {
	for _, l := range f.layouts() {
		if l.stages > 1 {
			continue
		}
		list = append(list, traffic{layout: l, context: 1}, traffic{layout: l, context: 1, full: true, zero: 1, eight: l.expert > 1})
		for _, method := range []string{"ring", "all-gather", "ulysses"} {
			for _, c := range []int64{2, 4} {
				if method == "ulysses" && (f.heads%(c*l.tensor) != 0 || f.groups%(c*l.tensor) != 0) {
					continue
				}
				list = append(list, traffic{layout: l, context: c, method: method, full: c == 2 && method != "ulysses", zero: int(l.data % 2)})
			}
		}
	}
	return list
}

// The bytes of every collective of every group are those of the papers' formulas.
func TestGroupsOfForms(t *testing.T) {
	for name, f := range forms {
		for _, x := range f.traffics() {
			sets := []string{
				fmt.Sprint("parallel.context=", x.context), "model.attention=flash", "parallel.bucket=1TB", fmt.Sprint("parallel.zero=", x.zero),
				"train.recompute=" + map[bool]string{true: "full", false: "none"}[x.full],
			}
			if x.method != "" {
				sets = append(sets, "parallel.context_method="+x.method)
			}
			if x.eight {
				sets = append(sets, "parallel.dispatch=fp8")
			}
			p, err := psim.Predict(context.Background(), f.config(t, x.layout, sets...))
			require.NoError(t, err, "%s: %+v", name, x)
			got := map[string]int64{}
			for _, g := range p.Result.Groups {
				got[g.Dimension+" "+g.Collective] = g.Bytes
			}
			require.Equal(t, x.want(f), got, "%s: %+v", name, x)
		}
	}
}

// A device sends its part of activations to the next stage and of their gradients back.
func TestSendsOfForms(t *testing.T) {
	for name, f := range forms {
		for _, l := range f.layouts() {
			for _, c := range []int64{1, 2} {
				if l.stages == 1 || l.data == 4 {
					continue
				}
				p, err := psim.Predict(context.Background(), f.config(t, l, "model.attention=flash", fmt.Sprint("parallel.context=", c)))
				require.NoError(t, err)
				want := microbatches * 2 * f.sequence * f.hidden / c / l.tensor
				if l.stages > 2 { // those between two others do both
					want *= 2
				}
				for _, g := range p.Result.Groups {
					if g.Dimension == "pipeline" {
						require.Equal(t, want, g.Bytes, "%s: %+v, context %d", name, l, c)
						want = 0
					}
				}
				require.Zero(t, want, "there are sends")
			}
		}
	}
}
