package search

// A clock holds a time for every rank and finds the earliest. Ranks form groups, each
// with its earliest time: the minimum of a few numbers needs no branches, unlike a tree.
type clock struct {
	times    []int64 // by rank; forever if the rank has no such pass
	earliest []int64 // by group
}

const groupSize = 8

func newClock(ranks int) *clock {
	groups := (ranks + groupSize - 1) / groupSize
	c := &clock{times: make([]int64, groups*groupSize), earliest: make([]int64, groups)}
	for i := range c.times {
		c.times[i] = forever
	}
	for i := range c.earliest {
		c.earliest[i] = forever
	}
	return c
}

// at returns the time of a rank.
func (c *clock) at(r int) int64 { return c.times[r] }

// set changes the time of a rank.
func (c *clock) set(r int, at int64) {
	c.times[r] = at
	t := (*[groupSize]int64)(c.times[r/groupSize*groupSize:])
	c.earliest[r/groupSize] = min(min(t[0], t[1], t[2], t[3]), min(t[4], t[5], t[6], t[7]))
}

// first returns the rank with the earliest time; of several, the one with the lowest
// number.
func (c *clock) first() (rank int, at int64) {
	at = forever
	for b, t := range c.earliest {
		if t < at {
			rank, at = b*groupSize, t
		}
	}
	for c.times[rank] != at {
		rank++
	}
	return rank, at
}
