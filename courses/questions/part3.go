package questions

import (
	"fmt"
	"slices"

	"psim/costmodel/training"
)

// sharding shares memory out in one of the ways of the third part.
type sharding struct {
	part, title, text string
	// formula and adam without a master copy, for equal and mixed precision.
	equal, equalMoments, mixed, mixedMoments string
}

// shardings lists ZeRO stages 0 to 3.
func shardings() []sharding {
	return []sharding{
		{
			"a", "nothing sharded", "when nothing is sharded",
			"5*P*S / 8", "4*P*S / 8", "P * (Sp + Sg + K*So) / 8", "P * (Sp + Sg + 2*So) / 8",
		}, {
			"b", "optimizer sharded", "when the optimizer states are sharded",
			"(2 + 3/W) * P*S / 8", "(2 + 2/W) * P*S / 8", "P * (Sp + Sg + K*So/W) / 8", "P * (Sp + Sg + 2*So/W) / 8",
		}, {
			"c", "optimizer and gradients sharded", "when optimizer states and gradients are sharded",
			"(1 + 4/W) * P*S / 8", "(1 + 3/W) * P*S / 8", "P * (Sp + (Sg + K*So)/W) / 8", "P * (Sp + (Sg + 2*So)/W) / 8",
		}, {
			"d", "everything sharded", "when parameters, gradients and optimizer states are all sharded",
			"5*P*S / 8 / W", "4*P*S / 8 / W", "P * (Sp + Sg + K*So) / 8 / W", "P * (Sp + Sg + 2*So) / 8 / W",
		},
	}
}

// parts derives what a worker holds at a ZeRO stage, given formulas for the whole of
// parameters, gradients and optimizer states.
func (s sharding) parts(zero int, parameters, gradients, states, formula string) []Step {
	var steps []Step
	for i, part := range []struct{ what, formula string }{{"Optimizer states", states}, {"Gradients", gradients}, {"Parameters", parameters}} {
		if i < zero {
			steps = append(steps, step(part.what+" are divided among W workers", part.formula+" / W", "bytes"))
		} else {
			steps = append(steps, step(part.what+" are whole on every worker", part.formula, "bytes"))
		}
	}
	return append(steps, step("Together", formula, "bytes"))
}

// shardedSymbolic returns question 3.2, in which every number has S bits and the
// optimizer is Adam with a copy of the parameters.
func shardedSymbolic() []question {
	var questions []question
	for zero, s := range shardings() {
		questions = append(questions, sharded(zero, question{
			id: "3.2" + s.part, title: "memory of a worker, " + s.title,
			text:       "Adam keeps three variables per parameter, namely a copy of it, momentum and variance, and all numbers have S bits: how many bytes does each of W workers hold " + s.text + "?",
			given:      []Symbol{parameters(10e9), bits("S", "bits per number", 32), workers(8)},
			formula:    s.equal,
			steps:      s.parts(zero, "P*S / 8", "P*S / 8", "3*P*S / 8", s.equal),
			simulation: "with a state of 1 + 1 + 3 numbers per parameter",
			cases:      []values{{"W": 1}, {"W": 2}, {"W": 16}, {"S": 16}, {"P": 1_048_576, "S": 64, "W": 4}},
			readings: []Reading{
				reading("two variables per parameter, the moments alone", s.equalMoments, "bytes"),
			},
		}, func(v values) trainer { return replicas(v.with(values{"K": 3})) }))
	}
	return questions
}

// shardedMixed returns question 3.3: the same in mixed precision.
func shardedMixed() []question {
	var questions []question
	for zero, s := range shardings() {
		questions = append(questions, sharded(zero, question{
			id: "3.3" + s.part, title: "mixed precision, " + s.title,
			text:       "Ten billion parameters are trained on eight workers with parameters and gradients in FP16 and Adam's three variables in FP32: how many bytes does each worker hold " + s.text + "?",
			given:      append([]Symbol{parameters(10e9), workers(8), variables("optimizer variables", 3)}, mixedBits()...),
			formula:    s.mixed,
			steps:      s.parts(zero, "P*Sp / 8", "P*Sg / 8", "K*P*So / 8", s.mixed),
			simulation: `with precision = "fp16" and optimizer = "adam"`,
			cases:      []values{{"W": 1}, {"W": 2}, {"W": 16}, {"P": 1_048_576, "W": 4}},
			readings: []Reading{
				reading("two variables per parameter, without the FP32 copy", s.mixedMoments, "bytes"),
				reading("in binary units", s.mixed+" / 1024 / 1024 / 1024", "GiB"),
			},
		}, func(v values) trainer { return mixed(v, "adam", 3) }))
	}
	questions[0].note = "The assignment asks for the sharded variants alone; this is what they are measured against."
	return questions
}

// sharded adds to a question on the memory of a worker what those of one ZeRO stage
// have in common: a step is simulated, and what the fullest worker keeps is read off.
func sharded(zero int, q question, train func(values) trainer) question {
	q.unit = "bytes"
	q.simulation = fmt.Sprintf("The memory ledger of data-parallel training at ZeRO stage %d, %s; the persistent memory of the fullest rank.", zero, q.simulation)
	q.run = func(v values) (run, error) {
		t := train(v)
		t.zero = zero
		return t.run()
	}
	q.read = func(r run) float64 { return slices.Max(r.perRank(persistent)) }
	q.slack = func(v values) float64 { return paddedBytes(zero, train(v)) }
	q.further = emptiest
	if zero == 3 {
		q.further = emptiestAndPeak
		q.note = "Counted is what stays. The peak that is checked is that of four layers without activations, of a tenth to four tenths of the parameters: two are gathered at a time, with the gradients of two."
	}
	return q
}

// paddedBytes bounds what a worker holds in excess of its share because shares are rounded
// up: to a byte each of gradients and optimizer states, or under ZeRO 3 to a parameter of
// each of four layers. Workers that divide 16 and P divide all layers.
func paddedBytes(zero int, t trainer) float64 {
	switch {
	case zero == 0 || t.parameters%t.workers == 0 && 16%t.workers == 0:
		return 0
	case zero < 3:
		return 2
	}
	each := t.state
	if each == (training.State{}) {
		each = t.training.State()
	}
	return float64(4 * (each.Parameter + each.Gradient + each.Optimizer))
}

// emptiest looks at the other workers.
func emptiest(q question, r run) ([]Check, error) {
	return []Check{check("the emptiest worker", q.closedForm(q.sample()), slices.Min(r.perRank(persistent)), "bytes")}, nil
}

// emptiestAndPeak also looks at the peak, which may not be less than what stays.
func emptiestAndPeak(q question, r run) ([]Check, error) {
	checks, err := emptiest(q, r)
	closed, top := q.closedForm(q.sample()), slices.Min(r.perRank(peak))
	return append(checks, Check{"peak, at least what stays", closed, top, "bytes", top >= closed}), err
}
