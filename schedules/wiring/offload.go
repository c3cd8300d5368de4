package wiring

import (
	"errors"
	"fmt"

	"psim/schedules/graph"
)

// Offload copies what forwards keep to the memory of the host, and back before their backwards. The
// copies of a rank have a stream of their own:
//
//	compute   F0      F1  F2  F3  B3  B2        B1        B0
//	offload      TO0  TO1             FROM1     FROM0
//
// Here 0 and 1 of four stages are copied, so that at most two stages have their tensors on the device:
// F2 waits for the end of TO0, and FROM1 for that of B3, which frees as much (Transformer Engine's
// cpu_offload.py orders it so).
type Offload struct {
	Bytes []int64 // by stage: what a forward keeps and copies, per sample; 0 is not copied
	// Behind[s] is the stage whose tensors have left the device before the forward of s, and return after
	// the backward of s; None for none.
	Behind []int32
}

// checkOffload reports copies in orders that keep the tensors of several stages at a time.
func (p *Pipeline) checkOffload() error {
	o := p.Offload
	switch {
	case o == nil:
		return nil
	case len(o.Bytes) != p.Placement.Stages() || len(o.Behind) != len(o.Bytes):
		return fmt.Errorf("copies to hosts for %d stages; there are %d", len(o.Bytes), p.Placement.Stages())
	case p.Shape.Ranks > 1:
		return fmt.Errorf("copies to hosts on %d ranks; they are modelled without a pipeline", p.Shape.Ranks)
	case p.Stashing || p.Synchronous || p.SerialBackward || p.WholeLast || p.Order.Paired() || p.Order.Split():
		return errors.New("copies to hosts: they are modelled with whole backwards, one after another")
	}
	return nil
}

// copiesToHost counts the copies that follow an action on a stage.
func (p *Pipeline) copiesToHost(k graph.Kind, stage int32) int64 {
	switch {
	case p.Offload == nil:
		return 0
	case k == graph.Forward && p.Offload.Bytes[stage] > 0, k == graph.Backward && p.Offload.Behind[stage] != graph.None:
		return 1
	}
	return 0
}

// awaitsCopy returns the copy that an action waits for; None if there is none.
func (b *rankBuilder) awaitsCopy(p *progress) int32 {
	switch {
	case b.Offload == nil || p.next > 0:
		return graph.None
	case p.Kind == graph.Backward:
		return b.copies[p.Stage]
	case b.Offload.Behind[p.Stage] != graph.None:
		return b.copies[b.Offload.Behind[p.Stage]]
	}
	return graph.None
}

// addCopy adds the copy that follows an action, which ends with task i.
func (b *rankBuilder) addCopy(p *progress, i int32) {
	if b.copiesToHost(p.Kind, p.Stage) == 0 {
		return
	}
	kind, slot, stage := graph.ToHost, toHost, p.Stage
	if p.Kind == graph.Backward {
		kind, slot, stage = graph.FromHost, fromHost, b.Offload.Behind[p.Stage]
	}
	stream, class := b.open(&b.offloads, "offload"), b.entry(slot, stage, p.variant)
	if *class == graph.None {
		t := b.task(&p.Action, kind, stream)
		t.Stage, t.Bytes = stage, b.Offload.Bytes[stage]*b.samples(p.Microbatch, 0)
		*class = b.addClasses(t, 1)
	}
	c := b.graph.Put(*class, stream, p.Microbatch)
	b.graph.Wait(c, i)
	b.copies[stage] = c
}
