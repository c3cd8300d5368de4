package data

import "math/bits"

const (
	mtWords = 624 // words of the state
	mtShift = 397 // distance of the words that are mixed
)

// mersenne generates numbers as the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998),
// seeded and read as CPython's module random does.
type mersenne struct {
	state [mtWords]uint32
	next  int // the index in the state to read next
}

// newMersenne makes random.Random(seed). The key is the absolute value of the seed in words of
// 32 bits, the lowest first.
func newMersenne(seed int64) *mersenne {
	magnitude := uint64(seed)
	if seed < 0 {
		magnitude = -magnitude
	}
	key := []uint32{uint32(magnitude)}
	if high := uint32(magnitude >> 32); high != 0 {
		key = append(key, high)
	}
	m := &mersenne{next: mtWords}
	m.seedByArray(key)
	return m
}

// seedByNumber does the same as init_genrand of the authors' mt19937ar.c.
func (m *mersenne) seedByNumber(seed uint32) {
	m.state[0] = seed
	for i := 1; i < mtWords; i++ {
		before := m.state[i-1]
		m.state[i] = 1812433253*(before^before>>30) + uint32(i)
	}
}

// seedByArray does the same as init_by_array of mt19937ar.c, for keys of at most 624 words.
func (m *mersenne) seedByArray(key []uint32) {
	m.seedByNumber(19650218)
	i := 1
	for k := range mtWords {
		j := k % len(key)
		m.state[i] = (m.state[i] ^ m.mixed(i)*1664525) + key[j] + uint32(j)
		i = m.after(i)
	}
	for range mtWords - 1 {
		m.state[i] = (m.state[i] ^ m.mixed(i)*1566083941) - uint32(i)
		i = m.after(i)
	}
	m.state[0] = 1 << 31
}

// mixed returns the word before word i, folded.
func (m *mersenne) mixed(i int) uint32 {
	before := m.state[i-1]
	return before ^ before>>30
}

// after returns the word to seed after word i. Past the end it starts again at word 1, and word
// 0 takes the value of the last.
func (m *mersenne) after(i int) int {
	if i+1 < mtWords {
		return i + 1
	}
	m.state[0] = m.state[mtWords-1]
	return 1
}

func (m *mersenne) uint32() uint32 {
	if m.next == mtWords {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *mersenne) twist() {
	for i := range m.state {
		y := m.state[i]&(1<<31) | m.state[(i+1)%mtWords]&(1<<31-1)
		m.state[i] = m.state[(i+mtShift)%mtWords] ^ y>>1 ^ (y&1)*0x9908b0df
	}
	m.next = 0
}

// getrandbits returns a number of k random bits, 1 to 64: the high bits of a word and, above 32
// bits, first a whole word for the low half.
func (m *mersenne) getrandbits(k int) uint64 {
	if k <= 32 {
		return uint64(m.uint32() >> (32 - k))
	}
	low := uint64(m.uint32())
	return uint64(m.uint32()>>(64-k))<<32 | low
}

// randbelow returns a number of 0 … n−1. It draws again until the number is below n.
func (m *mersenne) randbelow(n uint64) uint64 {
	k := bits.Len64(n)
	r := m.getrandbits(k)
	for r >= n {
		r = m.getrandbits(k)
	}
	return r
}

// shuffle does the same as Python's shuffle: Fisher and Yates, from the end.
func (m *mersenne) shuffle(list []int) {
	for i := len(list) - 1; i > 0; i-- {
		j := m.randbelow(uint64(i + 1))
		list[i], list[j] = list[j], list[i]
	}
}
