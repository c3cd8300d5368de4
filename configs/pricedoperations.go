package configs

import (
	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/stages"
)

// By these names pricedBy means some of the operations of a class. A plan has them or not.
const (
	fused          = "attention in one kernel"
	unfused        = "products of activations"
	unaligned      = "unaligned products with parameters"
	unalignedHeads = "unaligned products of activations"
	unalignedToo   = "unaligned products of activations on a device without a share of theirs"
)

// operations tells the class that each of these names stands for in a plan: "" where the plan
// has no such operation.
func operations(staged *stages.Staged, d costmodel.Device) map[string]string {
	classes := map[string]string{fused: "", unfused: "", unaligned: "", unalignedHeads: "", unalignedToo: ""}
	add := func(name, class string, has bool) {
		if has {
			classes[name] = class
		}
	}
	for _, s := range staged.Stages {
		for _, l := range s.Layers {
			for _, o := range l.Ops {
				product := o.Class == network.Product
				add(fused, "attention", o.Class == network.Attention)
				add(unfused, "attention", product && !o.Weight)
				add(unaligned, "products", product && o.Weight && !o.Aligned())
				add(unalignedHeads, "attention", product && !o.Weight && !o.Aligned())
			}
		}
	}
	add(unalignedToo, classes[unalignedHeads], d.UnalignedHeads == 0)
	return classes
}
