package configs

import (
	"fmt"

	"psim/costmodel"
	"psim/costmodel/stages"
)

// unmeasured warns where a machine has times of measured layers, but not those
// of this network: what it predicts of them is then far less certain.
func unmeasured(w *stages.Plan, d costmodel.Device) []string {
	if len(d.Measured) == 0 {
		return nil
	}
	if p := w.Training.Precision; p != "" && p != "fp32" {
		return []string{fmt.Sprintf("the machine's layers were measured in fp32, so that their times are not used for %s", p)}
	}
	known := map[string]bool{}
	for _, m := range d.Measured {
		known[m.Layer] = true
	}
	var missing []string
	for _, l := range w.Network.Layers {
		if !known[l.Signature()] {
			missing = append(missing, l.Name)
		}
	}
	if missing == nil {
		return nil
	}
	of := "another network"
	if d.MeasuredModel != "" {
		of = d.MeasuredModel
	}
	return []string{fmt.Sprintf("the machine's measured layers are those of %s: of the %d layers of %s, %d were not measured, the first of them %s, and are priced by rates alone; psim calibrate measures them",
		of, len(w.Network.Layers), w.Network.Name, len(missing), missing[0])}
}
