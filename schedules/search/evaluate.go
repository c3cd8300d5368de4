package search

// A score says how good an order is: the shorter span first, then the shorter
// makespan. Spans is the sum over the ranks, which tells progress where the
// longest span stays.
type score struct{ span, makespan, spans int64 }

// better orders by what is asked for.
func (s score) better(t score) bool {
	if s.span != t.span {
		return s.span < t.span
	}
	return s.makespan < t.makespan
}

// closer orders by what leads there.
func (s score) closer(t score) bool {
	if s.span != t.span {
		return s.span < t.span
	}
	if s.spans != t.spans {
		return s.spans < t.spans
	}
	return s.makespan < t.makespan
}

// impossible is the score of an order that deadlocks.
var impossible = score{1 << 62, 1 << 62, 1 << 62}

// An evaluator runs orders: every pass starts when the one before it on its rank
// has ended and what it needs has arrived. It computes what sim would, without a
// graph.
type evaluator struct {
	*problem
	arrivesF, arrivesI []int64 // when the input of F and I is there; −1 is not yet
	at                 [][]int64
	position           []int
	done               [][3]int
	free               []int64
	stack              []int
	waiting            []bool // on the stack
}

const notYet = -1

func newEvaluator(q *problem) *evaluator {
	e := &evaluator{
		problem: q, arrivesF: make([]int64, q.p*q.m), arrivesI: make([]int64, q.p*q.m),
		at: make([][]int64, q.p), position: make([]int, q.p), done: make([][3]int, q.p),
		free: make([]int64, q.p), waiting: make([]bool, q.p),
	}
	for r := range e.at {
		e.at[r] = make([]int64, 3*q.m)
	}
	return e
}

// run computes when everything starts, into at, and the score.
func (e *evaluator) run(w words) score {
	for i := range e.arrivesF {
		e.arrivesF[i], e.arrivesI[i] = notYet, notYet
	}
	for i := range e.m {
		e.arrivesF[i] = 0
	}
	e.stack = e.stack[:0]
	for r := e.p - 1; r >= 0; r-- {
		e.position[r], e.done[r], e.free[r] = 0, [3]int{}, 0
		e.stack, e.waiting[r] = append(e.stack, r), true
	}
	for len(e.stack) > 0 {
		r := e.stack[len(e.stack)-1]
		e.stack, e.waiting[r] = e.stack[:len(e.stack)-1], false
		e.advance(r, w[r])
	}
	s := score{}
	for r := range w {
		if e.position[r] < len(w[r]) {
			return impossible
		}
		span := e.free[r] - e.at[r][0]
		s.span, s.makespan, s.spans = max(s.span, span), max(s.makespan, e.free[r]), s.spans+span
	}
	return s
}

// advance runs a rank until it has to wait for a neighbour.
func (e *evaluator) advance(r int, word []byte) {
	base, free := r*e.m, e.free[r]
	for ; e.position[r] < len(word); e.position[r]++ {
		k := word[e.position[r]]
		i := base + e.done[r][k]
		arrived := int64(0)
		switch k {
		case letterF:
			arrived = e.arrivesF[i]
		case letterI:
			arrived = e.arrivesI[i]
		}
		if arrived == notYet {
			break
		}
		start := max(free, arrived)
		e.at[r][e.position[r]] = start
		free = start + e.time[k][i]
		e.done[r][k]++
		e.deliver(r, int(k), i, free)
	}
	e.free[r] = free
}

// deliver hands the result of a pass to the rank that needs it.
func (e *evaluator) deliver(r, k, i int, end int64) {
	switch {
	case k == letterF && r == e.p-1:
		e.arrivesI[i] = end
	case k == letterF:
		e.arrivesF[i+e.m] = end + e.latency[r]
		e.wake(r + 1)
	case k == letterI && r > 0:
		e.arrivesI[i-e.m] = end + e.latency[r-1]
		e.wake(r - 1)
	}
}

func (e *evaluator) wake(r int) {
	if !e.waiting[r] {
		e.waiting[r] = true
		e.stack = append(e.stack, r)
	}
}
