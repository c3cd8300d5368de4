package search

import "slices"

// A move takes the letter at from out of a rank's word and puts it back at to.
type move struct{ rank, from, to int }

// apply makes the move, and reversed takes it back.
func (v move) apply(w words) {
	word := w[v.rank]
	k := word[v.from]
	if v.from < v.to {
		copy(word[v.from:v.to], word[v.from+1:v.to+1])
	} else {
		copy(word[v.to+1:v.from+1], word[v.to:v.from])
	}
	word[v.to] = k
}

func (v move) reversed() move { return move{v.rank, v.to, v.from} }

// improve moves single passes as long as that helps: into the gaps of the rank
// with the longest span, and out of the way of what its gaps wait for. work
// bounds the passes that are run again.
func (s *search) improve(from words, limit []int64, work int) words {
	w := from.clone()
	e := s.evaluator
	score := e.run(w)
	for until := e.ran + work; score.span > s.bound; {
		found := false
		for _, v := range s.moves(w) {
			if e.ran > until {
				return w
			}
			v.apply(w)
			if s.legal(v.rank, w[v.rank], limit[v.rank]) {
				if got := e.runWithin(w, score.span); got.closer(score) {
					score, found = got, true
					break
				}
			}
			v.reversed().apply(w)
		}
		if !found {
			break
		}
	}
	return w
}

// moves lists what may help the rank with the longest span; the evaluator has
// just run the words.
func (s *search) moves(w words) []move {
	e := s.evaluator
	longest := 0
	for r := range w {
		if e.busy[r]+e.ranks[r].idle > e.busy[longest]+e.ranks[longest].idle {
			longest = r
		}
	}
	var list []move
	for _, gap := range s.gaps(w, longest) {
		for _, l := range []byte{letterW, letterF, letterI, upW, upF, upI}[:3*s.lanes] {
			if n := slices.Index(w[longest][gap:], l); n > 0 {
				list = append(list, move{longest, gap + n, gap})
			}
		}
		list = append(list, s.chain(w, longest, gap)...)
	}
	return list
}

// gaps lists the positions of a rank's word that start late, the longest wait
// first.
func (s *search) gaps(w words, r int) []int {
	const most = 8
	wait := make([]int64, len(w[r]))
	var list []int
	s.walk(w[r], r, func(i int, _ byte, idle int64) {
		if i > 0 && idle > 0 {
			wait[i] = idle
			list = append(list, i)
		}
	})
	slices.SortStableFunc(list, func(a, b int) int { return int(min(1, max(-1, wait[b]-wait[a]))) })
	return list[:min(most, len(list))]
}

// walk goes through a word with the time that the rank is idle before each
// letter.
func (s *search) walk(word []byte, r int, visit func(i int, l byte, idle int64)) {
	var done [letters]int
	end := int64(0)
	for i, l := range word {
		at := s.evaluator.at[r][i]
		visit(i, l, at-end)
		end = at + s.time[kindOf[l]][s.seat(r, int(l/3)).first+done[l]]
		done[l]++
	}
}

// chain follows what a late letter waits for, back through the ranks that keep
// each other waiting, and lists the moves that get something out of the way.
func (s *search) chain(w words, r, i int) []move {
	const longest = 60
	var list []move
	for len(list) < longest && i >= 0 {
		l, n := w[r][i], count(w[r][:i], w[r][i])
		stage, k := s.seat(r, int(l/3)).stage, kindOf[l]
		switch {
		case k == letterF && stage > 0:
			stage--
		case k == letterI && stage < s.stages()-1:
			stage++
		case k == letterI:
			k = letterF
		default:
			return list
		}
		r, l = s.rankOf(stage), byte(3*(stage/s.p))+k
		i = nth(w[r], l, n)
		feeds := i
		late := make([]bool, i+1)
		s.walk(w[r][:i+1], r, func(j int, _ byte, idle int64) { late[j] = idle > 0 })
		for ; i > 0 && !late[i]; i-- {
			if w[r][i-1] != l && len(list) < longest {
				list = append(list, move{r, i - 1, feeds})
			}
		}
	}
	return list
}

// count is how often a letter occurs.
func count(word []byte, k byte) int {
	n := 0
	for _, l := range word {
		if l == k {
			n++
		}
	}
	return n
}

// nth is the position of the n-th letter of a kind, counted from 0.
func nth(word []byte, k byte, n int) int {
	for i, l := range word {
		if l == k {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return -1
}
