package questions

import (
	"time"

	"psim/costmodel/arch"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

const gibibyte = 1 << 30

func replicatedMemory() question {
	return question{
		id: "1.3", title: "memory of all workers, data parallel",
		text: "How many bytes do W data-parallel workers occupy together, if each of them keeps every parameter, its gradient and K optimizer variables, all in S bits?",
		given: []Symbol{
			{"P", "parameters", 1e9}, {"K", "optimizer variables per parameter", 2},
			{"W", "workers", 8}, {"S", "bits per number", 32},
		},
		formula: "W * (2 + K) * P * S / 8", unit: "bytes",
		closedForm: func(v values) float64 { return float64(v["W"] * (2 + v["K"]) * v["P"] * v["S"] / 8) },
		run:        func(v values) (run, error) { return replicas(v).run() },
		read:       func(r run) float64 { return sum(r.perRank(persistent)) },
		simulation: "A ddp step of a four-layer network with P parameters and no activations; the persistent memory of all ranks is added up.",
		cases: []values{
			{"W": 1}, {"W": 2}, {"W": 4}, {"W": 16}, {"K": 0}, {"K": 1, "S": 64}, {"K": 3, "S": 16},
			{"P": 124_439_808, "W": 3},
		},
		further: replicatedChecks,
		readings: []Reading{
			reading("per worker (each holds a whole copy, whatever W is)", "(2 + K) * P * S / 8", 16e9, "bytes"),
		},
	}
}

// replicas trains whole copies in one precision.
func replicas(v values) trainer {
	bytes := v["S"] / 8
	return trainer{
		parameters: v["P"], workers: v["W"],
		state: arch.State{Parameter: bytes, Gradient: bytes, Optimizer: v["K"] * bytes},
	}
}

// replicatedChecks looks at single workers and at what they exchange.
func replicatedChecks(q question, r run) ([]Check, error) {
	v := q.sample()
	perWorker := float64((2 + v["K"]) * v["P"] * v["S"] / 8)
	checks := extremes("per worker, the fullest", "per worker, the emptiest", perWorker, r.perRank(persistent), "bytes")
	summed := r.bytes(graph.AllReduce) / float64(v["W"])
	return append(checks, check("gradients that one worker has summed", float64(v["P"]*v["S"]/8), summed, "bytes")), nil
}

func replicatedGigabytes() question {
	return question{
		id: "1.4", title: "memory of plain SGD, 10e9 parameters",
		text: "How many gigabytes does data-parallel training of ten billion parameters take on eight workers, with parameters and gradients in FP16 and SGD keeping one more copy of the parameters in FP32?",
		given: []Symbol{
			{"P", "parameters", 10e9}, {"W", "workers", 8}, {"K", "optimizer variables: the copy", 1},
			{"Sp", "bits of a parameter", 16}, {"Sg", "bits of a gradient", 16}, {"So", "bits of an optimizer variable", 32},
		},
		formula: "W * P * (Sp + Sg + K*So) / 8 / 1e9", unit: "GB",
		closedForm: func(v values) float64 { return float64(v["W"]*v["P"]*(v["Sp"]+v["Sg"]+v["K"]*v["So"])/8) / 1e9 },
		run: func(v values) (run, error) {
			return trainer{parameters: v["P"], workers: v["W"], training: arch.Training{Precision: "fp16", Optimizer: "sgd"}}.run()
		},
		read:       func(r run) float64 { return sum(r.perRank(gigabytes)) },
		simulation: `A ddp step with precision = "fp16" and optimizer = "sgd"; the persistent memory of all ranks is added up.`,
		note:       "The wording asks for the memory to run the training, so the eight workers count together; what has to fit on one of them is the reading per worker.",
		cases:      []values{{"W": 1}, {"W": 2}, {"W": 4}},
		further: func(q question, r run) ([]Check, error) {
			one := q.closedForm(q.sample().with(values{"W": 1}))
			return extremes("per worker, the fullest", "per worker, the emptiest", one, r.perRank(gigabytes), "GB"), nil
		},
		readings: []Reading{
			reading("per worker", "P * (Sp + Sg + K*So) / 8 / 1e9", 80, "GB"),
			reading("all workers, in binary units", "W * P * (Sp + Sg + K*So) / 8 / 1024 / 1024 / 1024", 640e9/gibibyte, "GiB"),
			reading("per worker, in binary units", "P * (Sp + Sg + K*So) / 8 / 1024 / 1024 / 1024", 80e9/gibibyte, "GiB"),
			reading("per worker, SGD without the copy (K = 0)", "P * (Sp + Sg) / 8 / 1e9", 40, "GB"),
			reading("all workers, SGD without the copy (K = 0)", "W * P * (Sp + Sg) / 8 / 1e9", 320, "GB"),
			reading("all workers, the copy in FP16 too", "W * P * (Sp + Sg + K*16) / 8 / 1e9", 480, "GB"),
		},
	}
}

// ringNanoseconds returns the time of a ring all-reduce of the gradients: bits over
// Gb/s are nanoseconds.
func ringNanoseconds(v values) int64 { return 2 * (v["W"] - 1) * v["P"] * v["Sg"] / (v["W"] * v["B"]) }

func gradientRing(v values) ring {
	return ring{workers: v["W"], length: v["P"], elementBytes: v["Sg"] / 8, gigabits: v["B"]}
}

// answeredByRing adds to a question both ways to the time of the gradients' ring.
func answeredByRing(q question) question {
	q.closedForm = func(v values) float64 { return float64(ringNanoseconds(v)) / 1e9 }
	q.run = func(v values) (run, error) { return gradientRing(v).run() }
	q.read = run.makespan
	q.unit, q.simulation = "s", "The ring spelled out as one send per worker and step on links without latency; its makespan."
	return q
}

func ringTime() question {
	const step = "2*(W-1)/W * P*Sg"
	return answeredByRing(question{
		id: "1.5", title: "time of a ring all-reduce",
		text: "How many seconds does it take W workers to sum the gradients of P parameters by ring all-reduce, when any two of them are joined by B Gb/s?",
		given: []Symbol{
			{"W", "workers", 4}, {"P", "parameters", 720_720_000}, {"B", "bandwidth between two workers, Gb/s", 40},
			{"Sg", "bits of a gradient", 16}, {"Sp", "bits of a parameter; does not enter", 16},
			{"So", "bits of an optimizer variable; does not enter", 32}, {"K", "optimizer variables; do not enter", 2},
		},
		formula: step + " / (B*1e9)",
		note:    "Only gradients travel. Every number of workers from 1 to 16 divides P, so that all chunks are equal and the comparison is exact.",
		cases:   ringSizes(4),
		further: ringTimeChecks,
		readings: []Reading{
			reading("B is already in bit/s", step+" / B", 432_432_000, "s"),
			reading("the limit of many workers", "2*P*Sg / (B*1e9)", 0.576576, "s"),
			reading("half-duplex links, which cannot send and receive at once", "4*(W-1)/W * P*Sg / (B*1e9)", 0.864864, "s"),
			reading("with a latency of 1 ms per step", "2*(W-1) * (1e-3 + P*Sg/(W*B*1e9))", 0.438432, "s"),
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
	closed := ringNanoseconds(v) + 2*(v["W"]-1)*int64(latency)
	return append(sentChecks(plain, v), check("with a latency of 1 ms per step", float64(closed)/1e9, delayed.makespan(), "s")), nil
}

// sentChecks compares what every worker sends: in each of 2(W-1) steps one
// chunk of the gradients.
func sentChecks(r run, v values) []Check {
	sends := make([]float64, v["W"])
	for _, t := range r.Plan.Graph.Tasks {
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
		id: "1.6", title: "ring all-reduce, 8 workers at 100 Gb/s",
		text: "How many seconds does the ring all-reduce of ten billion FP16 gradients take eight workers with 100 Gb/s between any two?",
		given: []Symbol{
			{"W", "workers", 8}, {"P", "parameters", 10e9}, {"B", "bandwidth between two workers, Gb/s", 100},
			{"Sg", "bits of a gradient", 16},
		},
		formula: "2*(W-1)/W * P*Sg / (B*1e9)",
		note:    "20 GB of gradients are cut into 8 chunks of 2.5 GB. At 12.5 GB/s a chunk takes 0.2 s, and there are 7 + 7 steps.",
		cases:   []values{{"W": 2}, {"W": 16}, {"B": 400}},
		further: ringSecondsChecks,
		readings: []Reading{
			reading("the limit of many workers, without (W-1)/W", "2 * P*Sg / (B*1e9)", 3.2, "s"),
			reading("the reduce-scatter half alone", "(W-1)/W * P*Sg / (B*1e9)", 1.4, "s"),
			reading("a Gb of 2^30 bits", "2*(W-1)/W * P*Sg / (B*1024*1024*1024)", 2.8e9/gibibyte, "s"),
			reading("gradients sent in FP32", "2*(W-1)/W * P*32 / (B*1e9)", 5.6, "s"),
			reading("half-duplex links", "4*(W-1)/W * P*Sg / (B*1e9)", 5.6, "s"),
			reading("bits taken for bytes, so 100 GB/s", "2*(W-1)/W * P*Sg/8 / (B*1e9)", 0.35, "s"),
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
