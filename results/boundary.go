package results

// The directions in which tensors pass a boundary.
const (
	ForwardDirection  = "forward"  // activations
	BackwardDirection = "backward" // their gradients
)

// A StageBoundary is the tensor that passes from a stage to a neighbouring stage for one
// microbatch.
type StageBoundary struct {
	From         int    `json:"from"`         // sending stage
	To           int    `json:"to"`           // receiving stage
	Shape        []int  `json:"shape"`        // samples first; images are samples × channels × height × width
	Bytes        int64  `json:"bytes"`        // size of the message that a device sends; 0 within a rank
	Direction    string `json:"direction"`    // forward for activations, backward for their gradients
	FromRank     int    `json:"from_rank"`    // sending rank in the first replica
	ToRank       int    `json:"to_rank"`      // receiving rank in the first replica
	Microbatches int    `json:"microbatches"` // number of microbatches in a step with this size and these ranks
	// Number of devices of a tensor-parallel group that divide the tensor, so that each sends
	// one part; 0 if each device sends the whole tensor.
	Parts int `json:"parts,omitempty"`
}
