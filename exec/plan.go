package exec

import (
	"errors"
	"fmt"

	"psim/costmodel/arch"
	"psim/schedules/graph"
)

// A plan is what a job's graph says about where tensors go.
type plan struct {
	cuts    [][]cut      // by stage
	buckets [][][]string // by stage and bucket: the tensors, as backwards complete them
	// tied[i] is what task i, an all-reduce over stages, sums: a tensor that they
	// share, or all of a rank's where stages have second copies.
	tied map[int32][]string
	// sliced tells, by stage and microbatch, which backwards are cut into parts.
	sliced map[[2]int32]bool

	sharded bool
	own     []*unit   // by stage; nil where it has no parameters
	units   [][]*unit // by stage: what it gathers
}

// A cut is consecutive layers of a stage that are compiled together, and the part
// of the stage's backward that runs them.
type cut struct {
	layers int
	part   uint16
}

func newPlan(j Job) (plan, error) {
	p := plan{tied: map[int32][]string{}, sliced: map[[2]int32]bool{}}
	p.findUnits(j)
	sizes, parts := gradientParts(j.Graph, len(j.Layers))
	for s := range j.Layers {
		if p.sharded {
			sizes[s] = nil
		}
		buckets, err := fill(sizes[s], j.split().Completed(s))
		if err != nil {
			return p, fmt.Errorf("stage %d: %w", s, err)
		}
		p.buckets = append(p.buckets, buckets)
		p.cuts = append(p.cuts, j.cutStage(s, buckets, parts[s]))
	}
	for i := range j.Graph.Tasks {
		if t := &j.Graph.Tasks[i]; t.Kind.Compute() && t.Part > 0 {
			p.sliced[[2]int32{t.Stage, t.Microbatch}] = true
		}
	}
	return p, p.findTied(j)
}

// gradientParts reads the gradient buckets of every stage, in bytes, off the
// first replica of a graph, and into how many parts backwards are cut.
func gradientParts(g *graph.Graph, stages int) (sizes [][]int64, parts []int) {
	sizes, parts = make([][]int64, stages), make([]int, stages)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		switch {
		case t.Stage == graph.None || int(t.Rank) >= g.Shape.Ranks:
		case t.Kind == graph.AllReduce && int(t.Part) == len(sizes[t.Stage]):
			sizes[t.Stage] = append(sizes[t.Stage], t.Bytes)
		case t.Kind.Compute():
			parts[t.Stage] = max(parts[t.Stage], int(t.Part)+1)
		}
	}
	return sizes, parts
}

// fill puts tensors into buckets of the given sizes.
func fill(sizes []int64, tensors []arch.Tensor) ([][]string, error) {
	var buckets [][]string
	for k, size := range sizes {
		var bucket []string
		for size > 0 && len(tensors) > 0 {
			size -= 4 * tensors[0].Shape.Elements()
			bucket = append(bucket, tensors[0].Name)
			tensors = tensors[1:]
		}
		if size != 0 {
			return nil, fmt.Errorf("gradient bucket %d of %d bytes does not hold whole fp32 tensors", k, sizes[k])
		}
		buckets = append(buckets, bucket)
	}
	if len(sizes) > 0 && len(tensors) > 0 {
		return nil, fmt.Errorf("no gradient bucket holds %s", tensors[0].Name)
	}
	return buckets, nil
}

// cutStage cuts a stage where a part of its backward ends, or at every layer.
func (j Job) cutStage(s int, buckets [][]string, parts int) []cut {
	layers := j.split().Stage(s)
	bucketOf := map[string]int{}
	for k, names := range buckets {
		for _, name := range names {
			bucketOf[name] = k
		}
	}
	var cuts []cut // last first
	part := 0
	for i := len(layers) - 1; i >= 0; i-- {
		if k, ok := firstBucket(j.split().Held(s, layers[i]), bucketOf); ok && parts > 1 {
			part = max(part, k)
		}
		if n := len(cuts); n > 0 && !j.PerLayer && cuts[n-1].part == uint16(part) {
			cuts[n-1].layers++
			continue
		}
		cuts = append(cuts, cut{layers: 1, part: uint16(part)})
	}
	for a, b := 0, len(cuts)-1; a < b; a, b = a+1, b-1 {
		cuts[a], cuts[b] = cuts[b], cuts[a]
	}
	return cuts
}

// firstBucket finds the first bucket that waits for one of a layer's tensors.
func firstBucket(tensors []arch.Tensor, bucketOf map[string]int) (first int, ok bool) {
	for _, t := range tensors {
		if k, has := bucketOf[t.Name]; has && (!ok || k < first) {
			first, ok = k, true
		}
	}
	return first, ok
}

// findTied matches every all-reduce over stages with its tensor: both come in
// the order of the stages that use them.
func (p *plan) findTied(j Job) error {
	if j.Graph.Placement.Second != nil {
		return p.findCopies(j)
	}
	var names []string // tied over ranks
	ranks := map[string][]int32{}
	for s := range j.Layers {
		for _, l := range j.split().Stage(s) {
			for _, t := range l.Tied {
				if owner := j.split().Owner(t.Name); owner >= 0 && !j.Graph.Placement.Together(owner, s) {
					names = append(names, t.Name)
					ranks[t.Name] = []int32{j.Graph.Placement.First[owner], j.Graph.Placement.First[s]}
				}
			}
		}
	}
	next := make([]int, j.Graph.Ranks()) // by rank: how many names are matched
	for i := range j.Graph.Tasks {
		t := &j.Graph.Tasks[i]
		if t.Kind != graph.AllReduce || t.Stage != graph.None {
			continue
		}
		local := t.Rank % int32(j.Graph.Shape.Ranks)
		for next[t.Rank] < len(names) {
			name := names[next[t.Rank]]
			next[t.Rank]++
			if on := ranks[name]; on[0] == local || on[1] == local {
				p.tied[int32(i)] = []string{name}
				break
			}
		}
		if p.tied[int32(i)] == nil {
			return fmt.Errorf("%s sums no tensor that stages share", j.Graph.Describe(int32(i)))
		}
	}
	if len(names) > 0 && len(p.tied) == 0 {
		return fmt.Errorf("%s is used by several ranks, and the graph does not sum its gradients", names[0])
	}
	return nil
}

// findCopies finds what is summed over the two ranks that hold the same stages:
// all of their tensors.
func (p *plan) findCopies(j Job) error {
	for i := range j.Graph.Tasks {
		t := &j.Graph.Tasks[i]
		if t.Kind != graph.AllReduce || t.Stage != graph.None {
			continue
		}
		for s := range j.Layers {
			if !j.Graph.Placement.Holds(t.Rank%int32(j.Graph.Shape.Ranks), int32(s)) {
				continue
			}
			for _, x := range j.split().Completed(s) {
				p.tied[int32(i)] = append(p.tied[int32(i)], x.Name)
			}
		}
	}
	if len(p.tied) != j.Graph.Ranks() {
		return errors.New("stages have second copies, and the graph does not sum their gradients")
	}
	return nil
}
