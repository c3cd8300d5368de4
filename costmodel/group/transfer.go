package group

// Pattern is a pattern of communication within a group of devices.
type Pattern uint8

// The collectives; NoCollective is a pass that exchanges nothing.
const (
	NoCollective Pattern = iota
	AllReduce
	AllGather
	ReduceScatter
	AllToAll  // of an expert group: every device sends a part to every other
	Transpose // the same within a rank: parts of sequences for whole ones of some heads
)

// Transfer is one collective over a tensor of Elements per sample, whole.
type Transfer struct {
	Collective   Pattern
	Elements     int64
	ElementBytes int // 0: an activation's
	Devices      int // 0: those of the tensor-parallel group
	// Context: among the devices that have parts of the same sequences.
	Context bool
}

// Bytes of the tensor for a microbatch, where an activation takes elementBytes.
func (t Transfer) Bytes(elementBytes, samples int64) int64 {
	if t.ElementBytes != 0 {
		elementBytes = int64(t.ElementBytes)
	}
	return t.Elements * elementBytes * samples
}
