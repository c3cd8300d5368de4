package stages

import (
	"psim/costmodel/network"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// Layered reports whether every layer is a stage of its own, on the rank of its neighbours.
func (w *Workload) Layered() bool { return w.Zero >= 3 || w.Training.OffloadActivations > 0 }

// offload says which stages copy what their forwards keep to the host; nil if none does. Stages are layers.
func (staged *Staged) offload() *wiring.Offload {
	if staged.Training.OffloadActivations == 0 {
		return nil
	}
	offloaded, behind, err := staged.Training.Offloaded(staged.Network.Layers)
	if err != nil || len(offloaded) != len(staged.Stages) {
		return nil // configs has refused it
	}
	o := &wiring.Offload{Bytes: make([]int64, len(offloaded)), Behind: make([]int32, len(offloaded))}
	for s, l := range staged.Network.Layers {
		if offloaded[s] {
			o.Bytes[s] = staged.KeptBytes(l)
		}
	}
	for s, i := range behind {
		if o.Behind[s] = graph.None; i >= 0 && o.Bytes[i] > 0 {
			o.Behind[s] = int32(i)
		}
	}
	return o
}

// OffloadedBytes returns the bytes per sample that a stage copies to the host.
func (staged *Staged) OffloadedBytes(stage int) int64 {
	if o := staged.offload(); o != nil {
		return o.Bytes[stage]
	}
	return 0
}

// KeptBytes returns the bytes per sample that the forward of a layer keeps for its backward.
func (staged *Staged) KeptBytes(l network.Layer) int64 {
	bytes := network.BufferBytes(staged.Training.Kept(l), staged.Training.ActivationElement(), 1)
	return bytes[network.ForwardToInput] + bytes[network.ForwardToWeight]
}
