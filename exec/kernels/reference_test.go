package kernels_test

import (
	"math"
	"testing"

	"psim/costmodel/network"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// The loss equals that of loops over float64, which follow the definitions.
func TestLossAgainstLoops(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			p := newPipe(t, device(t), n, kernels.Options{Samples: 2}.Double())
			defer p.close()
			p.shake(t)
			r := loops{network: n, values: map[string][]float64{}, draw: kernels.MaskSeed{Seed: 42}}
			for i, tensor := range p.stages[0].Parameters() {
				r.values[tensor.Name] = read(t, p.params[0][i])
			}
			b := makeData(n, 2)
			got, saved := p.forward(t, b, 0)
			saved[0].Release()
			require.InDelta(t, r.loss(b), got, 1e-9)
		})
	}
}

// loops computes one sample at a time. Rows of tokens are [][]float64; images
// are indexed channel, row, column.
type loops struct {
	network network.Network
	values  map[string][]float64
	draw    kernels.MaskSeed // of the sample
}

func (r loops) loss(b data) (sum float64) {
	for sample := range b.samples {
		var logits [][]float64
		switch {
		case b.tokens != nil:
			r.draw.Sample = sample
			logits = r.gpt(b.tokens[sample*len(b.tokens)/b.samples : (sample+1)*len(b.tokens)/b.samples])
		case len(r.network.Layers[0].Input) == 3:
			logits = [][]float64{r.vgg(b.numbers[sample*3072 : (sample+1)*3072])}
		default:
			logits = [][]float64{r.mlp(b.numbers[sample*6:(sample+1)*6], "fc0", "fc1", "fc2", "fc3")}
		}
		for i, row := range logits {
			total := 0.0
			for _, v := range row {
				total += math.Exp(v)
			}
			sum += math.Log(total) - row[b.targets[sample*len(logits)+i]]
		}
	}
	return sum
}

// times returns x·w + b for w [in, out].
func (r loops) times(x []float64, weight, bias string) []float64 {
	y := append([]float64{}, r.values[bias]...)
	for i, v := range x {
		for o := range y {
			y[o] += v * r.values[weight][i*len(y)+o]
		}
	}
	return y
}

// linear returns x·wᵀ + b for w [out, in].
func (r loops) linear(x []float64, weight, bias string) []float64 {
	y := make([]float64, len(r.values[weight])/len(x))
	for o := range y {
		if bias != "" {
			y[o] = r.values[bias][o]
		}
		for i, v := range x {
			y[o] += v * r.values[weight][o*len(x)+i]
		}
	}
	return y
}

// mlp has a ReLU between its layers.
func (r loops) mlp(x []float64, names ...string) []float64 {
	for i, name := range names {
		x = r.linear(x, name+".weight", name+".bias")
		for k := range x {
			if i < len(names)-1 {
				x[k] = max(x[k], 0)
			}
		}
	}
	return x
}

func (r loops) norm(x []float64, name string) []float64 {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v-mean)/math.Sqrt(square+1e-5)*r.values[name+".weight"][i] + r.values[name+".bias"][i]
	}
	return y
}

func (r loops) gpt(tokens []int32) [][]float64 {
	embed := r.network.Layers[0]
	hidden := embed.Output[1]
	x := make([][]float64, len(tokens))
	factors := r.dropout(embed, "drop", len(tokens), hidden)
	for i, token := range tokens {
		x[i] = add(r.values["wte.weight"][int(token)*hidden:][:hidden], r.values["wpe.weight"][i*hidden:][:hidden])
		scale(x[i], factors[i])
	}
	for _, l := range r.network.Layers {
		if l.Kind == network.KindGPTBlock {
			x = r.block(x, l)
		}
	}
	head := "wte.weight"
	if r.values["lm_head.weight"] != nil {
		head = "lm_head.weight"
	}
	for i := range x {
		x[i] = r.linear(r.norm(x[i], "ln_f"), head, "")
	}
	return x
}

// dropout returns the factors of rows: 0, or the scale of what is kept.
func (r loops) dropout(l network.Layer, place string, rows, columns int) [][]float64 {
	keep := make([]bool, rows*columns)
	r.draw.Keep(keep, l.Name, place, l.Dropout)
	factors := make([][]float64, rows)
	for i, k := range keep {
		factor := 0.0
		if k {
			factor = 1 / (1 - l.Dropout)
		}
		factors[i/columns] = append(factors[i/columns], factor)
	}
	return factors
}

func scale(x, factors []float64) []float64 {
	for i := range x {
		x[i] *= factors[i]
	}
	return x
}

func (r loops) block(x [][]float64, l network.Layer) [][]float64 {
	key, heads, hidden := l.Name+".", l.Heads, len(x[0])
	width := hidden / heads
	probabilities := r.dropout(l, "attn.attn_dropout", heads*len(x), len(x))
	attended, expanded := r.dropout(l, "attn.resid_dropout", len(x), hidden),
		r.dropout(l, "mlp.dropout", len(x), hidden)
	qkv := make([][]float64, len(x))
	out := make([][]float64, len(x))
	for i := range x {
		qkv[i] = r.times(r.norm(x[i], key+"ln_1"), key+"attn.c_attn.weight", key+"attn.c_attn.bias")
		context := make([]float64, hidden)
		for h := range heads {
			r.attend(context[h*width:][:width], qkv[:i+1], h*width, hidden, probabilities[h*len(x)+i])
		}
		y := add(x[i], scale(r.times(context, key+"attn.c_proj.weight", key+"attn.c_proj.bias"), attended[i]))
		f := r.times(r.norm(y, key+"ln_2"), key+"mlp.c_fc.weight", key+"mlp.c_fc.bias")
		for k, v := range f {
			f[k] = 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		}
		out[i] = add(y, scale(r.times(f, key+"mlp.c_proj.weight", key+"mlp.c_proj.bias"), expanded[i]))
	}
	return out
}

// attend returns the context of the last token in the head that begins at a column.
func (loops) attend(context []float64, qkv [][]float64, column, hidden int, dropout []float64) {
	q := qkv[len(qkv)-1][column:][:len(context)]
	total := 0.0
	for i, row := range qkv {
		score := 0.0
		for d, v := range q {
			score += v * row[hidden+column+d] / math.Sqrt(float64(len(context)))
		}
		total += math.Exp(score)
		for d := range context {
			context[d] += math.Exp(score) * dropout[i] * row[2*hidden+column+d]
		}
	}
	for d := range context {
		context[d] /= total
	}
}

// vgg takes an image with channels last, as the programs do.
func (r loops) vgg(image []float64) []float64 {
	x := make([][][]float64, 3)
	for c := range x {
		x[c] = square(32, func(i, j int) float64 { return image[(i*32+j)*3+c] })
	}
	for _, l := range r.network.Layers {
		for _, op := range l.Ops {
			switch {
			case op.Function == network.MaxPool:
				for c, old := range x {
					x[c] = square(len(old)/2, func(i, j int) float64 {
						return max(old[2*i][2*j], old[2*i][2*j+1], old[2*i+1][2*j], old[2*i+1][2*j+1])
					})
				}
			case op.Function == network.Spread:
				for c, old := range x {
					x[c] = square(7, func(int, int) float64 { return old[0][0] })
				}
			case op.Class == network.Product && len(l.Input) == 3:
				x = r.convolution(x, op.Name)
			}
		}
	}
	var flat []float64
	for _, channel := range x {
		for _, line := range channel {
			flat = append(flat, line...)
		}
	}
	return r.mlp(flat, "classifier.0", "classifier.3", "classifier.6")
}

// convolution is 3×3 with padding 1, and a ReLU.
func (r loops) convolution(x [][][]float64, name string) [][][]float64 {
	size := len(x[0])
	out := make([][][]float64, len(r.values[name+".bias"]))
	for o := range out {
		out[o] = square(size, func(i, j int) float64 {
			sum := r.values[name+".bias"][o]
			for c := range x {
				for k := range 9 {
					if a, b := i+k/3-1, j+k%3-1; a >= 0 && b >= 0 && a < size && b < size {
						sum += x[c][a][b] * r.values[name+".weight"][(o*len(x)+c)*9+k]
					}
				}
			}
			return max(sum, 0)
		})
	}
	return out
}

func square(size int, f func(i, j int) float64) [][]float64 {
	lines := make([][]float64, size)
	for i := range lines {
		lines[i] = make([]float64, size)
		for j := range lines[i] {
			lines[i][j] = f(i, j)
		}
	}
	return lines
}

func add(a, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i := range a {
		sum[i] = a[i] + b[i]
	}
	return sum
}
