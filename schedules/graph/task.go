package graph

import (
	"fmt"
	"slices"
	"strconv"
)

// Kind says what a task does. The letters are PyTorch's: B is the full
// backward, I and W its two halves.
type Kind uint8

// The kinds of task.
const (
	Forward        Kind = iota // F: one stage's forward of one microbatch
	Backward                   // B: its full backward, input and weight gradient together
	InputGradient              // I: the half that the previous stage waits for
	WeightGradient             // W: the other half
	SendForward                // activations to the rank of the next stage
	SendBackward               // gradients to the rank of the previous stage
	Send                       // one chunk of a spelled-out collective, to a neighbour
	Reduce                     // adds a received chunk to the rank's own
	Copy                       // puts a received chunk in its place
	AllReduce                  // fused collective: every rank ends with the sum
	ReduceScatter              // fused collective: every rank ends with its share of the sum
	AllGather                  // fused collective: every rank ends with all shares
	Average                    // divides summed gradients by the number of replicas
	Optimizer                  // updates a rank's parameters
	Broadcast                  // fused collective: every rank ends with what the first has
	AllToAll                   // fused collective: every device sends a part to every other of its expert group
	Loss                       // the last stage's loss of one microbatch, where it is not part of F
	Zero                       // sets a rank's gradients to zero, where that is not part of the update
	ToHost                     // copies what a rank brings to a collective, or what F has kept, into its host's memory
	FromHost                   // copies the result of a collective, or what F has kept, back

	// These occur in written orders, never in a graph.
	ReceiveForward  // receipt of activations
	ReceiveBackward // receipt of gradients
	Unshard         // gather of a stage's sharded parameters
	Reshard         // end of their use
	ReduceGradient  // sum of a stage's gradients
	WaitForward     // end of a SEND_F: its buffer is free
	WaitBackward    // end of a SEND_B
	WaitGradient    // end of a REDUCE_GRAD

	Kinds // the number of kinds
)

var kindNames = [Kinds]string{
	"F", "B", "I", "W", "SEND_F", "SEND_B", "SEND", "REDUCE", "COPY",
	"ALL_REDUCE", "REDUCE_SCATTER", "ALL_GATHER", "AVERAGE", "OPTIMIZER", "BROADCAST", "ALL_TO_ALL",
	"LOSS", "ZERO", "TO_HOST", "FROM_HOST",
	"RECV_F", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_SEND_F", "WAIT_SEND_B", "WAIT_REDUCE_GRAD",
}

// String returns the kind's notation: F, B, I, W, SEND_F, ALL_REDUCE and so on.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind is the inverse of String.
func ParseKind(s string) (Kind, error) {
	if k := slices.Index(kindNames[:], s); k >= 0 {
		return Kind(k), nil
	}
	return 0, fmt.Errorf("unknown kind of task %q; the kinds are %v", s, kindNames)
}

// Compute reports whether k is F, B, I, W or a loss: the work that counts as busy.
func (k Kind) Compute() bool { return k <= WeightGradient || k == Loss }

// Pass reports whether k is F, B, I or W: what an order lists.
func (k Kind) Pass() bool { return k <= WeightGradient }

// Update reports whether k works on all gradients of a rank: the optimizer's step, or zeroing them.
func (k Kind) Update() bool { return k == Optimizer || k == Zero }

// Staging reports whether k copies between a device and its host.
func (k Kind) Staging() bool { return k == ToHost || k == FromHost }

// Offloads reports whether a task copies what an F has kept to the host, or back.
func (t *Task) Offloads() bool { return t.Kind.Staging() && t.Of == Forward }

// Message reports whether k moves bytes from its rank to one other.
func (k Kind) Message() bool { return k == SendForward || k == SendBackward || k == Send }

// Collective reports whether k is a fused collective, which starts on all
// ranks of its group at once.
func (k Kind) Collective() bool {
	return k == AllReduce || k == ReduceScatter || k == AllGather || k == Broadcast || k == AllToAll
}

// Communication reports whether time spent in k counts as communication.
// Averaging is part of synchronising gradients, so it does.
func (k Kind) Communication() bool {
	return k.Message() || k.Collective() || k == Reduce || k == Copy || k == Average || k.Staging()
}

// None is the value of fields that do not apply: a stage, microbatch or peer of a task that has
// no such thing, or a task where there is none.
const None = -1

// A Task is one unit of work.
type Task struct {
	Kind Kind
	// Of is the kind of collective that a copy to or from the host belongs to, or F for one of what an F
	// has kept; 0 otherwise.
	Of Kind
	// Part numbers the pieces of one action, from 0: the slices of a backward that is cut so
	// that gradients can leave early, the parts of a pass between its all-to-alls, or the chunks
	// of a collective. The all-to-alls of a stage's backward are numbered after those of its
	// forward.
	Part uint16
	// Rank is the device that runs the task.
	Rank int32
	// Stream indexes Graph.Streams.
	Stream int32
	// Stage and Microbatch are None for work that does not belong to one.
	Stage, Microbatch int32
	// Peer is the destination rank of a message, the group of a fused
	// collective (an index into Graph.Groups), and None otherwise.
	Peer int32
	// Bytes is the size of a message, of the whole tensor that a collective reduces or
	// gathers, of everything that one device sends in an all-to-all, of the gradients that are
	// averaged or set to zero, of the logits that a loss reads, or of a copy.
	Bytes int64
}

// String prints the task as in the literature: 2F0 is the forward of stage 2,
// microbatch 0; 1SEND_F3 sends stage 1's activations of microbatch 3.
func (t Task) String() string {
	name := make([]byte, 0, 24)
	if t.Stage != None {
		name = strconv.AppendInt(name, int64(t.Stage), 10)
	}
	name = append(name, t.Kind.String()...)
	if t.Microbatch != None {
		name = strconv.AppendInt(name, int64(t.Microbatch), 10)
	}
	if t.Part > 0 && t.Microbatch != None || t.Stage == None {
		name = strconv.AppendInt(append(name, '.'), int64(t.Part), 10)
	}
	return string(name)
}

// kindWords describe the kinds of task that occur in a graph.
var kindWords = [ReceiveForward]string{
	"forward", "backward", "input gradient", "weight gradient", "activations sent", "gradients sent",
	"chunk sent", "chunk added", "chunk replaced", "all-reduce", "reduce-scatter", "all-gather",
	"average of gradients", "optimizer", "broadcast", "all-to-all",
	"loss", "gradients set to zero", "copy to the host", "copy from the host",
}

// words describes what the task does, and for which stage and microbatch.
func (t Task) words() string {
	text := t.Kind.String()
	if t.Kind < ReceiveForward {
		text = kindWords[t.Kind]
	}
	if t.Stage != None {
		text += fmt.Sprintf(", stage %d", t.Stage)
	}
	if t.Microbatch != None {
		text += fmt.Sprintf(", microbatch %d", t.Microbatch)
	}
	return text
}
