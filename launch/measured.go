package launch

import (
	"bytes"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"psim/internal/units"
)

// An iteration line of Megatron's. Forks print a value and its mean with a slash between them.
var (
	iterationStart = regexp.MustCompile(`\biteration\s+(\d+)/\s*\d+ \|`)
	lineStamp      = regexp.MustCompile(`\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)?\]`)
)

// Marks before the numbers of an iteration line.
const (
	stepMark  = "elapsed time per iteration ("
	batchMark = "global batch size:"
)

var rateMarks = []string{"throughput per GPU (TFLOP/s/GPU):", "TFLOPs:"}

// linesWith yields the lines of a text that contain a word. Only on these are patterns tried: a log of a month has a
// million other lines.
func linesWith(data []byte, word string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			at := bytes.Index(data, []byte(word))
			if at < 0 {
				return
			}
			from, end := bytes.LastIndexByte(data[:at], '\n')+1, len(data)
			if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
				end = at + n
			}
			if !yield(data[from:end]) {
				return
			}
			data = data[end:]
		}
	}
}

// numberAfter returns the number that follows a mark in a line; nil if none does.
func numberAfter(line []byte, mark string) []byte {
	at := bytes.Index(line, []byte(mark))
	if at < 0 {
		return nil
	}
	rest := bytes.TrimLeft(line[at+len(mark):], " \t")
	return rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789.eE+-"))]
}

// readLine reads a report of Megatron's, and returns false for other lines.
func readLine(text []byte) (l line, ok bool) {
	unit, scale := "ms): ", 1000.0
	step := numberAfter(text, stepMark+unit)
	if step == nil {
		unit, scale = "s): ", 1
		step = numberAfter(text, stepMark+unit)
	}
	m := iterationStart.FindSubmatch(text)
	if m == nil || len(step) == 0 {
		return line{}, false
	}
	l.step = positive(step) / scale
	l.iteration, _ = strconv.Atoi(string(m[1]))
	l.batch, _ = strconv.Atoi(string(numberAfter(text, batchMark)))
	for _, mark := range rateMarks {
		if rate := numberAfter(text, mark); rate != nil && l.throughput == 0 {
			l.throughput = positive(rate)
		}
	}
	if s := lineStamp.FindSubmatch(text); s != nil {
		l.at, _ = time.Parse(time.DateTime, string(s[1]))
	}
	return l, true
}

// A line is one report of a log.
type line struct {
	iteration, batch int
	step, throughput float64
	at               time.Time
}

// longestStep is longer than any step, in seconds.
const longestStep = 1e6

// lines reads the reports of a log.
func lines(data []byte) (list []line) {
	for text := range linesWith(data, stepMark) {
		if l, ok := readLine(text); ok && l.step > 0 && l.step < longestStep {
			list = append(list, l)
		}
	}
	return list
}

// measure reads the steps of a log's last start: of the arguments' global batch, or of the one with most lines,
// without the first line, whose step compiles and warms up; nil if there are none.
func measure(data []byte, a *arguments) *LoggedSteps {
	data = lastDump(data) // of whose start the arguments are
	all := lines(data)
	best := counted(all, a.integer("global_batch_size"))
	if best == nil {
		return nil
	}
	m := &LoggedSteps{
		Program: "megatron", How: "the median of " + units.Plural(len(best), "line"),
		StepTime: median(best, func(l line) float64 { return l.step }), Lines: len(best), Batch: best[0].batch,
		Left: len(all) - len(best), Throughput: median(best, func(l line) float64 { return l.throughput }),
	}
	m.Said = a.integer("global_batch_size")
	if m.Batch == 0 {
		m.Batch = a.integer("global_batch_size")
	}
	for i, l := range all[1:] {
		before := all[i]
		between := float64(l.iteration-before.iteration) * l.step
		if gap := l.at.Sub(
			before.at,
		).Seconds(); !before.at.IsZero() && between > 0 &&
			gap-between > 1 { // stamps have seconds
			m.Lost += gap - between
		}
	}
	if world := a.integer("world_size"); world > 0 && m.Throughput > 0 {
		perSecond := float64(m.Batch) / (m.StepTime * float64(world)) / 1e12
		causal, square := a.flops()
		m.Recomputed = causal * perSecond
		if other := square * perSecond; math.Abs(other-m.Throughput) < math.Abs(m.Recomputed-m.Throughput) {
			m.Recomputed = other // versions before 2025 count the whole square of attention
		}
	}
	return m
}

// counted returns the lines that count: those of a global batch, or if there are not any, those of the batch with
// most lines. The first line of a start does not count.
func counted(all []line, batch int) (best []line) {
	byBatch := map[int][]line{}
	for i, l := range all {
		if i == 0 && len(all) > 2 || i > 0 && l.iteration <= all[i-1].iteration {
			continue
		}
		byBatch[l.batch] = append(byBatch[l.batch], l)
	}
	if list := byBatch[batch]; list != nil {
		return list
	}
	for _, list := range byBatch {
		if len(list) > len(best) || len(list) == len(best) && list[0].batch > best[0].batch {
			best = list
		}
	}
	return best
}

// median returns the median of a number of the lines.
func median(list []line, of func(line) float64) float64 {
	var values []float64
	for _, l := range list {
		values = append(values, of(l))
	}
	slices.Sort(values)
	n := len(values)
	return (values[n/2] + values[(n-1)/2]) / 2
}

// flops returns the FLOPs of a sample by Megatron's own count, with half and with the whole square of
// attention: six for a weight that a token goes through, nothing for recomputation.
func (a *arguments) flops() (causal, square float64) {
	number := func(name string) float64 { return a.number(name) }
	layers, hidden, sequence := number("num_layers"), number("hidden_size"), number("seq_length")
	var weights, core float64 // of a token in a layer
	heads, each := number("num_attention_heads"), number("kv_channels")
	if a.on("multi_latent_attention") {
		key := number("qk_head_dim") + number("qk_pos_emb_head_dim")
		query := hidden * heads * key
		if rank := number("q_lora_rank"); rank > 0 {
			query = rank * (hidden + heads*key + 1)
		}
		weights = query + number("kv_lora_rank")*(hidden+heads*(number("qk_head_dim")+number("v_head_dim"))+1) +
			hidden*number("qk_pos_emb_head_dim") + heads*number("v_head_dim")*hidden
		core = heads * (key + number("v_head_dim"))
	} else {
		groups := heads
		if a.on("group_query_attention") {
			groups = number("num_query_groups")
		}
		weights = hidden * each * (2*heads + 2*groups)
		core = 2 * heads * each
	}
	products := 2.0
	if a.on("swiglu") || a.on("gated_linear_unit") || a.on("quick_geglu") {
		products = 3
	}
	mixtures := 0.0
	if number("num_experts") > 0 {
		mixtures = float64(countMixtures(a.get("moe_layer_freq"), int(layers)))
	}
	wide := number("moe_ffn_hidden_size")
	if wide == 0 {
		wide = number("ffn_hidden_size")
	}
	dense := products * hidden * number("ffn_hidden_size")
	mixture := products * hidden * (wide*number("moe_router_topk") + number("moe_shared_expert_intermediate_size"))
	mlp := (layers-mixtures)*dense + mixtures*mixture
	more, last := number("mtp_num_layers"), dense // each as the last layer
	if mixtures > 0 {
		last = mixture
	}
	mlp += more * (last + 3*hidden + 2*hidden*hidden)
	head := hidden * number("padded_vocab_size") * (1 + more)
	perToken := mlp + head + (layers+more)*weights
	attention := (layers + more) * core * sequence
	return 6 * sequence * (perToken + attention/2), 6 * sequence * (perToken + attention)
}
