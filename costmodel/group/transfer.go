package group

// Pattern is a pattern of communication within a group of devices.
type Pattern uint8

// The patterns. NoCollective stands for a pass that exchanges nothing.
const (
	NoCollective Pattern = iota
	AllReduce
	AllGather
	ReduceScatter
	AllToAll  // within an expert group: every device sends a part to every other
	Transpose // within a rank: swaps parts of sequences for whole sequences of some heads
)

// Transfer is one collective over a whole tensor of Elements per sample.
type Transfer struct {
	Collective   Pattern
	Elements     int64
	ElementBytes int  // 0 means the size of an activation
	Devices      int  // 0 means those of the tensor-parallel group
	Context      bool // among the devices that have parts of the same sequences
}

// Bytes returns the size of the tensor for a microbatch, where an activation takes
// elementBytes.
func (t Transfer) Bytes(elementBytes, samples int64) int64 {
	if t.ElementBytes != 0 {
		elementBytes = int64(t.ElementBytes)
	}
	return t.Elements * elementBytes * samples
}
