package costmodel

import (
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/internal/setting"
)

// idleInCollective returns the Idle of keys that a collective by itself does not use: it
// has no host, no memory and no computation.
func idleInCollective() []string { return []string{"[collective]"} }

// unlessGiven needs the rate that products reach not to be given, for a share of the peak.
func unlessGiven(rate string) []setting.Need {
	return []setting.Need{{
		Keys: []string{rate}, Unset: true,
		Reason: "which says what products reach; give one of the two",
	}}
}

// The names by which settings price only some of the operations of a class (see
// setting.Setting.Prices).
const (
	fusedAttention     = "attention in one kernel"
	unfusedAttention   = "products of activations"
	unalignedProducts  = "unaligned products with parameters"
	unalignedScores    = "unaligned products of activations"
	unalignedScoresToo = "unaligned products of activations on a device without a share of theirs"
	scans              = "scans"
)

// OperationClasses returns, for each name of some operations that settings price, the class of
// these operations in a plan, or "" if the plan does not have them.
func OperationClasses(staged *stages.Staged, d Device) map[string]string {
	classes := map[string]string{
		fusedAttention: "", unfusedAttention: "", unalignedProducts: "", unalignedScores: "", unalignedScoresToo: "",
		scans: "",
	}
	add := func(name, class string, has bool) {
		if has {
			classes[name] = class
		}
	}
	for _, s := range staged.Stages {
		for _, l := range s.Layers {
			for _, o := range l.Ops {
				product := o.Class == network.Product
				add(fusedAttention, "attention", o.Class == network.Attention)
				add(scans, "attention", o.Class == network.Scan)
				add(unfusedAttention, "attention", product && !o.Weight)
				add(unalignedProducts, "products", product && o.Weight && !o.Aligned())
				add(unalignedScores, "attention", product && !o.Weight && !o.Aligned())
			}
		}
	}
	add(unalignedScoresToo, classes[unalignedScores], d.UnalignedHeads == 0)
	return classes
}
