package questions

import (
	"time"

	"psim/costmodel/training"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

func replicatedMemory() question {
	return question{
		id: "1.3", title: "memory of all workers, data parallel",
		text:    "How many bytes do W data-parallel workers occupy together, if each of them keeps every parameter, its gradient and K optimizer variables, all in S bits?",
		given:   []Symbol{parameters(1e9), variables("optimizer variables per parameter", 2), workers(8), bits("S", "bits per number", 32)},
		formula: "W * (2 + K) * P * S / 8", unit: "bytes",
		steps: []Step{
			step("Of every parameter a worker keeps the parameter itself, its gradient and K optimizer variables", "2 + K", "numbers"),
			step("S bits each are S/8 bytes", "(2 + K) * S / 8", "bytes"),
			step("A worker has P parameters", "(2 + K) * P * S / 8", "bytes"),
			step("Nothing is shared, so that W workers hold W times that", "W * (2 + K) * P * S / 8", "bytes"),
		},
		run:        func(v values) (run, error) { return replicas(v).run() },
		read:       func(r run) float64 { return float64(r.persistent()) },
		simulation: "A ddp step of a four-layer network with P parameters and no activations; the persistent memory of all ranks is added up.",
		cases: []values{
			{"W": 1}, {"W": 2}, {"W": 4}, {"W": 16}, {"K": 0}, {"K": 1, "S": 64}, {"K": 3, "S": 16},
			{"P": 124_439_808, "W": 3},
		},
		further: replicatedChecks,
		readings: []Reading{
			reading("per worker (each holds a whole copy, whatever W is)", "(2 + K) * P * S / 8", "bytes"),
		},
	}
}

// replicas trains whole copies in one precision.
func replicas(v values) trainer {
	bytes := v["S"] / 8
	return trainer{
		parameters: v["P"], workers: v["W"],
		state: training.State{Parameter: bytes, Gradient: bytes, Optimizer: v["K"] * bytes},
	}
}

// replicatedChecks looks at single workers and at what they exchange.
func replicatedChecks(q question, r run) ([]Check, error) {
	v := q.sample()
	perWorker := float64((2 + v["K"]) * v["P"] * v["S"] / 8)
	checks := extremes("per worker, the fullest", "per worker, the emptiest", perWorker, r.perRank(persistent), "bytes")
	if v["W"] == 1 {
		return checks, nil // there is nobody to sum gradients with
	}
	summed := r.bytes(graph.AllReduce) / float64(v["W"])
	return append(checks, check("gradients that one worker has summed", float64(v["P"]*v["S"]/8), summed, "bytes")), nil
}

func replicatedGigabytes() question {
	return question{
		id: "1.4", title: "memory of plain SGD, mixed precision",
		text:    "How many gigabytes does data-parallel training of ten billion parameters take on eight workers, with parameters and gradients in FP16 and SGD keeping one more copy of the parameters in FP32?",
		given:   append([]Symbol{parameters(10e9), workers(8), variables("optimizer variables: the copy", 1)}, mixedBits()...),
		formula: "W * P * (Sp + Sg + K*So) / 8 / 1e9", unit: "GB",
		steps: []Step{
			step("Of every parameter a worker keeps the parameter, its gradient and K optimizer variables, of Sp, Sg and So bits", "Sp + Sg + K*So", "bits"),
			step("In bytes", "(Sp + Sg + K*So) / 8", "bytes"),
			step("A worker has P parameters", "P * (Sp + Sg + K*So) / 8 / 1e9", "GB"),
			step("W workers hold W times that", "W * P * (Sp + Sg + K*So) / 8 / 1e9", "GB"),
		},
		run:        func(v values) (run, error) { return mixed(v, "sgd", 1).run() },
		read:       func(r run) float64 { return evaluate("B / 1e9", values{"B": r.persistent()}) },
		simulation: `A ddp step with precision = "fp16" and optimizer = "sgd"; the persistent memory of all ranks is added up.`,
		note:       "The wording asks for the memory to run the training, so the workers count together; what has to fit on one of them is the reading per worker.",
		cases:      []values{{"W": 1}, {"W": 2}, {"W": 4}},
		further: func(q question, r run) ([]Check, error) {
			one := q.closedForm(q.sample().with(values{"W": 1}))
			return extremes("per worker, the fullest", "per worker, the emptiest", one, r.perRank(gigabytes), "GB"), nil
		},
		readings: []Reading{
			reading("per worker", "P * (Sp + Sg + K*So) / 8 / 1e9", "GB"),
			reading("all workers, in binary units", "W * P * (Sp + Sg + K*So) / 8 / 1024 / 1024 / 1024", "GiB"),
			reading("per worker, in binary units", "P * (Sp + Sg + K*So) / 8 / 1024 / 1024 / 1024", "GiB"),
			reading("per worker, SGD without the copy (K = 0)", "P * (Sp + Sg) / 8 / 1e9", "GB"),
			reading("all workers, SGD without the copy (K = 0)", "W * P * (Sp + Sg) / 8 / 1e9", "GB"),
			reading("all workers, the copy in FP16 too", "W * P * (Sp + Sg + K*16) / 8 / 1e9", "GB"),
		},
	}
}

// mixed trains whole copies, with parameters and gradients in 16 bits and an optimizer of so
// many variables in 32, or in other bits if the reader wants to.
func mixed(v values, optimizer string, variables int64) trainer {
	t := trainer{parameters: v["P"], workers: v["W"], training: training.Options{Precision: "fp16", Optimizer: optimizer}}
	if v["Sp"] != 16 || v["Sg"] != 16 || v["So"] != 32 || v["K"] != variables {
		t.state = training.State{Parameter: v["Sp"] / 8, Gradient: v["Sg"] / 8, Optimizer: v["K"] * v["So"] / 8}
	}
	return t
}

func gradientRing(v values) ring {
	return ring{workers: v["W"], length: v["P"], elementBytes: v["Sg"] / 8, gigabits: v["B"]}
}

const ringFormula = "2*(W-1)/W * P*Sg / (B*1e9)"

// ringSteps derive the time of a ring.
func ringSteps() []Step {
	return []Step{
		step("The gradients are P numbers of Sg bits", "P*Sg", "bits"),
		step("They are cut into W chunks", "P*Sg/W", "bits"),
		step("In each of W-1 steps every worker sends one chunk on and adds to the next what arrives; then every chunk is summed somewhere, and W-1 more steps hand the sums round", "2*(W-1)", "steps"),
		step("So every worker sends, at the same time as all others", "2*(W-1)/W * P*Sg", "bits"),
		step("At B Gb/s", ringFormula, "s"),
	}
}

// ringSlack bounds what it costs that chunks have whole elements and steps take whole
// nanoseconds: up to one of each in every step. Bits over Gb/s are nanoseconds.
func ringSlack(v values) float64 {
	if v["P"]%v["W"] == 0 && v["P"]/v["W"]*v["Sg"]%v["B"] == 0 {
		return 0
	}
	return evaluate("2*(W-1) * (Sg/B + 1) / 1e9", v)
}

// answeredByRing adds to a question both ways to the time of the gradients' ring.
func answeredByRing(q question) question {
	q.steps = ringSteps()
	q.slack = ringSlack
	q.run = func(v values) (run, error) { return gradientRing(v).run() }
	q.read = run.makespan
	q.unit, q.simulation = "s", "The ring spelled out as one send per worker and step on links without latency; its makespan."
	return q
}

func ringTime() question {
	return answeredByRing(question{
		id: "1.5", title: "time of a ring all-reduce",
		text: "How many seconds does it take W workers to sum the gradients of P parameters by ring all-reduce, when any two of them are joined by B Gb/s?",
		// Every number of workers from 1 to 16 divides P, so that all chunks are equal.
		given: []Symbol{
			workers(4), parameters(720_720_000), bandwidth(40),
			bits("Sg", "bits of a gradient", 16), bits("Sp", "bits of a parameter; does not enter", 16),
			bits("So", "bits of an optimizer variable; does not enter", 32), variables("optimizer variables; do not enter", 2),
		},
		formula: ringFormula,
		note:    "Only gradients travel.",
		cases:   ringSizes(4),
		further: ringTimeChecks,
		readings: []Reading{
			reading("B is already in bit/s", "2*(W-1)/W * P*Sg / B", "s"),
			reading("the limit of many workers", "2*P*Sg / (B*1e9)", "s"),
			reading("half-duplex links, which cannot send and receive at once", "4*(W-1)/W * P*Sg / (B*1e9)", "s"),
			reading("with a latency of 1 ms per step", "2*(W-1) * (1e-3 + P*Sg/(W*B*1e9))", "s"),
		},
	})
}

// ringSizes lists all numbers of workers from 1 to 16 but one.
func ringSizes(but int64) []values {
	var cases []values
	for w := int64(1); w <= 16; w++ {
		if w != but {
			cases = append(cases, values{"W": w})
		}
	}
	return cases
}

// ringTimeChecks adds the messages, and links with a latency.
func ringTimeChecks(q question, plain run) ([]Check, error) {
	const latency = time.Millisecond
	v := q.sample()
	late := gradientRing(v)
	late.latency = latency
	delayed, err := late.run()
	if err != nil {
		return nil, err
	}
	closed := evaluate("2*(W-1) * (1e-3 + P*Sg/(W*B*1e9))", v)
	return append(sentChecks(plain, v), check("with a latency of 1 ms per step", closed, delayed.makespan(), "s")), nil
}

// sentChecks compares what every worker sends: in each of 2(W-1) steps one
// chunk of the gradients.
func sentChecks(r run, v values) []Check {
	sends := make([]float64, v["W"])
	for _, t := range r.Experiment.Graph.Tasks {
		if t.Kind == graph.Send {
			sends[t.Rank]++
		}
	}
	steps := 2 * (v["W"] - 1)
	bytes := float64(steps * v["P"] * v["Sg"] / 8 / v["W"])
	return append(extremes("sends, the busiest worker", "sends, the idlest worker", float64(steps), sends, "sends"),
		extremes("bytes sent, the busiest worker", "bytes sent, the idlest worker", bytes, r.perRank(sent), "bytes")...)
}

func ringSeconds() question {
	return answeredByRing(question{
		id: "1.6", title: "time of a ring all-reduce, in numbers",
		text:    "How many seconds does the ring all-reduce of ten billion FP16 gradients take eight workers with 100 Gb/s between any two?",
		given:   []Symbol{workers(8), parameters(10e9), bandwidth(100), bits("Sg", "bits of a gradient", 16)},
		formula: ringFormula,
		cases:   []values{{"W": 2}, {"W": 16}, {"B": 400}},
		further: ringSecondsChecks,
		readings: []Reading{
			reading("the limit of many workers, without (W-1)/W", "2 * P*Sg / (B*1e9)", "s"),
			reading("the reduce-scatter half alone", "(W-1)/W * P*Sg / (B*1e9)", "s"),
			reading("a Gb of 2^30 bits", "2*(W-1)/W * P*Sg / (B*1024*1024*1024)", "s"),
			reading("gradients sent in FP32", "2*(W-1)/W * P*32 / (B*1e9)", "s"),
			reading("half-duplex links", "4*(W-1)/W * P*Sg / (B*1e9)", "s"),
			reading("bits taken for bytes, so B GB/s", "2*(W-1)/W * P*Sg/8 / (B*1e9)", "s"),
		},
	})
}

// ringSecondsChecks adds the messages, and the ring as others order it.
func ringSecondsChecks(q question, r run) ([]Check, error) {
	v := q.sample()
	checks := sentChecks(r, v)
	for _, c := range collective.Conventions() {
		other := gradientRing(v)
		other.convention = c.Name
		r, err := other.run()
		if err != nil {
			return nil, err
		}
		checks = append(checks, check("the ring as "+c.Name+" orders it", q.closedForm(v), r.makespan(), "s"))
	}
	return checks, nil
}
