package results

// The directions in which tensors pass a boundary.
const (
	ForwardDirection  = "forward"  // activations
	BackwardDirection = "backward" // their gradients
)

// A StageBoundary is the tensor that passes from a stage to a neighbouring stage for one
// microbatch.
type StageBoundary struct {
	From         int    `json:"from"`         // stage that sends
	To           int    `json:"to"`           // stage that receives
	Shape        []int  `json:"shape"`        // samples first; images are samples × channels × height × width
	Bytes        int64  `json:"bytes"`        // of the message that a device sends; 0 within a rank
	Direction    string `json:"direction"`    // forward for activations, backward for their gradients
	FromRank     int    `json:"from_rank"`    // of the first replica
	ToRank       int    `json:"to_rank"`      // of the first replica
	Microbatches int    `json:"microbatches"` // how many of a step are of this size, and go between these ranks
	// Among how many devices of a tensor-parallel group the tensor is divided, each of
	// which sends one part; 0 where each sends all of it.
	Parts int `json:"parts,omitempty"`
}
