package group_test

import (
	"fmt"

	"psim/costmodel/group"
)

// DeepSeek-V3 sends a token to 8 of 256 experts, in at most 4 of 8 groups. Over 64 devices
// in 8 nodes it reaches fewer nodes than devices.
func ExampleRouting_Reached() {
	r := group.Routing{Experts: 256, PerToken: 8, Groups: 8, GroupsPerToken: 4}
	fmt.Printf("%.2f devices, %.2f nodes\n", r.Reached(64), r.Reached(8))
	// Output: 7.36 devices, 3.63 nodes
}

// Megatron's group of 8 devices with sequence parallelism: the experts are in 4 shares, and
// two devices divide each expert.
func ExampleGroup() {
	g := group.Group{Devices: 8, Sequence: true, Expert: 4, ExpertTensor: 2}
	fmt.Println(g.All(), g.ExpertDevices(), g.Dispatches())
	// Output: 8 8 true
}
