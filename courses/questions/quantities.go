package questions

import (
	"go/constant"
	"go/token"
	"slices"
	"time"

	"psim"
	"psim/schedules/graph"
)

// A run is a simulated step.
type run struct {
	psim.Simulation
	rank int // that in_flight is of
}

// quantity looks up what formulas read off a run. Bytes are of all ranks together, or of the
// rank with the most or the least.
func (r run) quantity(name string) constant.Value {
	switch name {
	case "makespan":
		return inSeconds(r.Summary.Makespan)
	case "computed": // by the first rank
		return inSeconds(r.Summary.Ranks[0].Compute)
	case "bubble":
		return constant.MakeFloat64(r.Summary.Bubble.Makespan)
	case "in_flight":
		return constant.MakeInt64(int64(r.Summary.Ranks[r.rank].PeakInFlight))
	case "sent_forward":
		return constant.MakeInt64(r.bytes(graph.SendForward))
	case "sent_backward":
		return constant.MakeInt64(r.bytes(graph.SendBackward))
	case "summed": // in all-reduces
		return constant.MakeInt64(r.bytes(graph.AllReduce))
	case "ranks":
		return constant.MakeInt64(int64(len(r.Summary.Ranks)))
	case "persistent":
		return constant.MakeInt64(total(r.perRank(persistent)))
	case "fullest":
		return constant.MakeInt64(slices.Max(r.perRank(persistent)))
	case "emptiest":
		return constant.MakeInt64(slices.Min(r.perRank(persistent)))
	case "least_peak":
		return constant.MakeInt64(slices.Min(r.perRank(peak)))
	case "sent":
		return constant.MakeInt64(total(r.perRank(sent)))
	case "most_sent":
		return constant.MakeInt64(slices.Max(r.perRank(sent)))
	case "least_sent":
		return constant.MakeInt64(slices.Min(r.perRank(sent)))
	case "most_sends":
		return constant.MakeInt64(slices.Max(r.sends()))
	case "least_sends":
		return constant.MakeInt64(slices.Min(r.sends()))
	}
	return nil
}

// bytes sums the payloads of the tasks of one kind, over all ranks.
func (r run) bytes(k graph.Kind) (total int64) {
	for _, t := range r.Experiment.Graph.Tasks() {
		if t.Kind == k {
			total += t.Bytes
		}
	}
	return total
}

// sends counts the sends of every rank.
func (r run) sends() []int64 {
	counts := make([]int64, len(r.Summary.Ranks))
	for _, t := range r.Experiment.Graph.Tasks() {
		if t.Kind == graph.Send {
			counts[t.Rank]++
		}
	}
	return counts
}

func (r run) perRank(read func(graph.RankSummary) int64) []int64 {
	var numbers []int64
	for _, rank := range r.Summary.Ranks {
		numbers = append(numbers, read(rank))
	}
	return numbers
}

func persistent(r graph.RankSummary) int64 { return r.PersistentMemory }
func peak(r graph.RankSummary) int64       { return r.PeakMemory }
func sent(r graph.RankSummary) int64       { return r.SentBytes }

// total adds numbers up.
func total[T int64 | float64](numbers []T) (all T) {
	for _, n := range numbers {
		all += n
	}
	return all
}

// inSeconds converts a time exactly.
func inSeconds(d time.Duration) constant.Value {
	return constant.BinaryOp(constant.MakeInt64(int64(d)), token.QUO, constant.MakeInt64(int64(time.Second)))
}
