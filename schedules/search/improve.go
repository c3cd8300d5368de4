package search

import "slices"

// A move takes an operation out of a rank's sequence and inserts it elsewhere.
type move struct{ rank, from, to int }

// apply makes the move; the reversed move undoes it.
func (v move) apply(seqs sequences) {
	seq := seqs[v.rank]
	k := seq[v.from]
	if v.from < v.to {
		copy(seq[v.from:v.to], seq[v.from+1:v.to+1])
	} else {
		copy(seq[v.to+1:v.from+1], seq[v.to:v.from])
	}
	seq[v.to] = k
}

func (v move) reversed() move { return move{v.rank, v.to, v.from} }

// improve moves single passes as long as that helps: into the gaps of the rank with the
// longest span, and out of the way of passes that these gaps wait for. work bounds the
// number of passes that are run again.
func (s *search) improve(from sequences, limit []int64, work int) sequences {
	seqs := from.clone()
	e := s.evaluator
	score := e.run(seqs)
	for until := e.ran + work; score.span > s.bound; {
		found := false
		for _, v := range s.moves(seqs) {
			if e.ran > until {
				return seqs
			}
			v.apply(seqs)
			if s.legal(v.rank, seqs[v.rank], limit[v.rank]) {
				if got := e.runWithin(seqs, score.span); got.closerThan(score) {
					score, found = got, true
					break
				}
			}
			v.reversed().apply(seqs)
		}
		if !found {
			break
		}
	}
	return seqs
}

// moves lists the moves that may help the rank with the longest span. The evaluator must
// just have run the sequences.
func (s *search) moves(seqs sequences) []move {
	e := s.evaluator
	longest := 0
	for r := range seqs {
		if e.busy[r]+e.ranks[r].idle > e.busy[longest]+e.ranks[longest].idle {
			longest = r
		}
	}
	var list []move
	preferred := []op{opW, opF, opI, upW, upF, upI}[:3*s.lanes]
	for _, gap := range s.gaps(seqs, longest) {
		for _, o := range preferred {
			if n := slices.Index(seqs[longest][gap:], o); n > 0 {
				list = append(list, move{longest, gap + n, gap})
			}
		}
		list = append(list, s.chain(seqs, longest, gap)...)
	}
	return list
}

// gaps lists the positions in a rank's sequence before which the rank waits, the longest
// wait first.
func (s *search) gaps(seqs sequences, r int) []int {
	const most = 8
	wait := make([]int64, len(seqs[r]))
	var list []int
	s.walk(seqs[r], r, func(i int, _ op, idle int64) {
		if i > 0 && idle > 0 {
			wait[i] = idle
			list = append(list, i)
		}
	})
	slices.SortStableFunc(list, func(a, b int) int { return int(min(1, max(-1, wait[b]-wait[a]))) })
	return list[:min(most, len(list))]
}

// walk visits the operations of a sequence with the idle time before each.
func (s *search) walk(seq sequence, r int, visit func(i int, o op, idle int64)) {
	var done [operations]int
	end := int64(0)
	for i, o := range seq {
		at := s.evaluator.at[r][i]
		visit(i, o, at-end)
		end = at + s.time[o.kind()][s.slot(r, o.lane()).first+done[o]]
		done[o]++
	}
}

// chain follows the chain of operations that a late operation waits for, back through
// the ranks, and lists the moves that take other operations out of their way.
func (s *search) chain(seqs sequences, r, i int) []move {
	const longest = 60
	var list []move
	for len(list) < longest && i >= 0 {
		o, n := seqs[r][i], count(seqs[r][:i], seqs[r][i])
		stage, k := s.slot(r, o.lane()).stage, o.kind()
		switch {
		case k == opF && stage > 0:
			stage--
		case k == opI && stage < s.stages()-1:
			stage++
		case k == opI:
			k = opF
		default:
			return list
		}
		r, o = s.rankOf(stage), op(3*(stage/s.p))+k
		i = nth(seqs[r], o, n)
		feeds := i
		late := make([]bool, i+1)
		s.walk(seqs[r][:i+1], r, func(j int, _ op, idle int64) { late[j] = idle > 0 })
		for ; i > 0 && !late[i]; i-- {
			if seqs[r][i-1] != o && len(list) < longest {
				list = append(list, move{r, i - 1, feeds})
			}
		}
	}
	return list
}

// count counts an operation in a sequence.
func count(seq sequence, k op) int {
	n := 0
	for _, o := range seq {
		if o == k {
			n++
		}
	}
	return n
}

// nth returns the position of the n-th occurrence of an operation, counted from 0, or −1.
func nth(seq sequence, k op, n int) int {
	for i, o := range seq {
		if o == k {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return -1
}
