package collective

// A Convention says which chunk a rank sends at which step. The published
// implementations differ in direction and in which rank ends up owning which
// chunk, and so in the order in which floating-point numbers are added.
type Convention struct {
	Name      string
	Direction int // a rank sends to rank + Direction
	// At step i of the reduce-scatter rank r sends chunk r + Reduce − i·Direction,
	// and at step i of the all-gather chunk r + Gather − i·Direction, modulo N.
	Reduce, Gather int
}

// Conventions lists NCCL's and MPICH's ring, Gloo's and Baidu's.
func Conventions() []Convention {
	return []Convention{
		{Name: "nccl", Direction: 1, Reduce: -1, Gather: 0},
		{Name: "gloo", Direction: -1, Reduce: 1, Gather: 0},
		{Name: "baidu", Direction: 1, Reduce: 0, Gather: 1},
	}
}

func conventionNames() []string {
	var names []string
	for _, c := range Conventions() {
		names = append(names, c.Name)
	}
	return names
}

// Owner is the rank that holds the whole sum of a chunk after the
// reduce-scatter, and contributes it to the all-gather.
func (c Convention) Owner(chunk, ranks int) int { return mod(chunk-c.Gather, ranks) }
