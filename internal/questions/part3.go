package questions

import (
	"slices"

	"psim/costmodel/arch"
)

// sharding is one of the ways in which the third part shares memory out.
type sharding struct {
	part, title, text string
	// formula and adam without a master copy, for equal and mixed precision.
	equal, equalMoments, mixed, mixedMoments string
	// bytes is what a worker holds of parameters, gradients and optimizer
	// states whose sizes are given.
	bytes func(parameters, gradients, states, workers int64) int64
}

// shardings lists ZeRO stages 0 to 3.
func shardings() []sharding {
	return []sharding{
		{
			"a", "nothing sharded", "when nothing is sharded",
			"5*P*S / 8", "4*P*S / 8", "P * (Sp + Sg + K*So) / 8", "P * (Sp + Sg + 2*So) / 8",
			func(p, g, s, _ int64) int64 { return p + g + s },
		}, {
			"b", "optimizer sharded", "when the optimizer states are sharded",
			"(2 + 3/W) * P*S / 8", "(2 + 2/W) * P*S / 8", "P * (Sp + Sg + K*So/W) / 8", "P * (Sp + Sg + 2*So/W) / 8",
			func(p, g, s, w int64) int64 { return p + g + s/w },
		}, {
			"c", "optimizer and gradients sharded", "when optimizer states and gradients are sharded",
			"(1 + 4/W) * P*S / 8", "(1 + 3/W) * P*S / 8", "P * (Sp + (Sg + K*So)/W) / 8", "P * (Sp + (Sg + 2*So)/W) / 8",
			func(p, g, s, w int64) int64 { return p + (g+s)/w },
		}, {
			"d", "everything sharded", "when parameters, gradients and optimizer states are all sharded",
			"5*P*S / 8 / W", "4*P*S / 8 / W", "P * (Sp + Sg + K*So) / 8 / W", "P * (Sp + Sg + 2*So) / 8 / W",
			func(p, g, s, w int64) int64 { return (p + g + s) / w },
		},
	}
}

const (
	ledgerRun  = "The memory ledger of data-parallel training at ZeRO stage "
	shardedTo3 = "Counted is what stays. The peak shown is that of four layers without activations, of a tenth to four tenths of the parameters: two are gathered at a time, with the gradients of two."
)

// shardedSymbolic returns question 3.2, in which every number has S bits and the
// optimizer is Adam with a copy of the parameters.
func shardedSymbolic() []question {
	samples := [][2]float64{{200e9, 160e9}, {95e9, 90e9}, {60e9, 55e9}, {25e9, 20e9}} // of K = 3 and K = 2
	var questions []question
	for zero, s := range shardings() {
		q := question{
			id: "3.2" + s.part, title: "memory of a worker, " + s.title,
			text: "Adam keeps three variables per parameter, namely a copy of it, momentum and variance, and all numbers have S bits: how many bytes does each of W workers hold " + s.text + "?",
			given: []Symbol{
				{"P", "parameters", 10e9}, {"S", "bits per number", 32}, {"W", "workers", 8},
			},
			formula: s.equal, unit: "bytes",
			closedForm: func(v values) float64 {
				one := v["P"] * v["S"] / 8
				return float64(s.bytes(one, one, 3*one, v["W"]))
			},
			simulate:   ledger(zero, func(v values) trainer { return replicas(v.with(values{"K": 3})) }),
			simulation: ledgerRun + number(int64(zero)) + ", with a state of 1 + 1 + 3 numbers per parameter; the persistent memory of the fullest rank.",
			cases:      []values{{"W": 1}, {"W": 2}, {"W": 16}, {"S": 16}, {"P": 1_048_576, "S": 64, "W": 4}},
			further:    ledgerChecks(zero, func(v values) trainer { return replicas(v.with(values{"K": 3})) }),
			readings: []Reading{
				reading("two variables per parameter, the moments alone", s.equalMoments, samples[zero][1], "bytes"),
			},
		}
		if zero == 3 {
			q.note = shardedTo3
		}
		questions = append(questions, q)
	}
	return questions
}

// shardedMixed returns question 3.3: the same in mixed precision.
func shardedMixed() []question {
	samples := [][2]float64{{160e9, 120e9}, {55e9, 50e9}, {37.5e9, 32.5e9}, {20e9, 15e9}} // of K = 3 and K = 2
	adam := func(v values) trainer {
		return trainer{parameters: v["P"], workers: v["W"], training: arch.Training{Precision: "fp16", Optimizer: "adam"}}
	}
	var questions []question
	for zero, s := range shardings() {
		q := question{
			id: "3.3" + s.part, title: "mixed precision, " + s.title,
			text: "Ten billion parameters are trained on eight workers with parameters and gradients in FP16 and Adam's three variables in FP32: how many bytes does each worker hold " + s.text + "?",
			given: []Symbol{
				{"P", "parameters", 10e9}, {"W", "workers", 8}, {"K", "optimizer variables", 3},
				{"Sp", "bits of a parameter", 16}, {"Sg", "bits of a gradient", 16}, {"So", "bits of an optimizer variable", 32},
			},
			formula: s.mixed, unit: "bytes",
			closedForm: func(v values) float64 {
				return float64(s.bytes(v["P"]*v["Sp"]/8, v["P"]*v["Sg"]/8, v["K"]*v["P"]*v["So"]/8, v["W"]))
			},
			simulate:   ledger(zero, adam),
			simulation: ledgerRun + number(int64(zero)) + `, with precision = "fp16" and optimizer = "adam"; the persistent memory of the fullest rank.`,
			cases:      []values{{"W": 1}, {"W": 2}, {"W": 16}, {"P": 1_048_576, "W": 4}},
			further:    ledgerChecks(zero, adam),
			readings: []Reading{
				reading("two variables per parameter, without the FP32 copy", s.mixedMoments, samples[zero][1], "bytes"),
				reading("in binary units", s.mixed+" / 1024 / 1024 / 1024", samples[zero][0]/gibibyte, "GiB"),
			},
		}
		switch zero {
		case 0:
			q.note = "The assignment asks for the sharded variants alone; this is what they are measured against."
		case 3:
			q.note = shardedTo3
		}
		questions = append(questions, q)
	}
	return questions
}

// ledger simulates a step at a ZeRO stage and reads off what the fullest
// worker keeps.
func ledger(zero int, train func(values) trainer) func(values) (float64, error) {
	return func(v values) (float64, error) {
		r, err := sharded(zero, train(v)).run()
		if err != nil {
			return 0, err
		}
		return float64(slices.Max(r.perRank(persistent))), nil
	}
}

func sharded(zero int, t trainer) trainer {
	t.zero = zero
	return t
}

// ledgerChecks looks at the other workers, and where parameters are sharded at
// the peak, which may not be less than what stays.
func ledgerChecks(zero int, train func(values) trainer) func(question) ([]Check, error) {
	return func(q question) ([]Check, error) {
		r, err := sharded(zero, train(q.sample())).run()
		if err != nil {
			return nil, err
		}
		closed := q.closedForm(q.sample())
		checks := []Check{check("the emptiest worker", closed, float64(slices.Min(r.perRank(persistent))), "bytes", 0)}
		if zero == 3 {
			top := float64(slices.Min(r.perRank(peak)))
			checks = append(checks, Check{"peak, at least what stays", closed, top, "bytes", top >= closed})
		}
		return checks, nil
	}
}
