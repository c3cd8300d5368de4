package layers

import (
	"cmp"
	"slices"
	"time"

	"psim/calibrate"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/measure"
	"psim/internal/units"
)

// newCalibration fits a machine to a profile.
func newCalibration(n network.Network, optimizer string, p *measure.LayerProfile) (*Calibration, error) {
	measured, timings := measurements(p)
	constants, err := calibrate.FitRoofline(timings, p.Call)
	if err != nil {
		return nil, err
	}
	flops := units.FLOPS(calibrate.Significant(float64(constants.FLOPS)))
	bandwidth := units.Rate(calibrate.Significant(float64(constants.Bandwidth)))
	d := costmodel.Device{
		Peak: costmodel.Peak{FP32: flops}, MemoryBandwidth: bandwidth,
		Efficiency: costmodel.Efficiency{FP32: 1, Memory: 1}, Launch: constants.Launch,
		Measured: measured, MeasuredModel: n.Name,
	}
	update := fitUpdate(optimizer, p.Updates)
	for _, u := range []costmodel.MeasuredUpdate{update, fitUpdate(costmodel.Averaging, p.Scales)} {
		if u.Rate > 0 {
			d.Updates = append(d.Updates, u)
		}
	}
	link := link.Link{}
	link.Latency, link.Bandwidth = fitTransfers(p.Copies)
	link.Call, link.Collective = fitTransfers(p.Sums)
	link.Call = max(0, link.Call-2*link.Latency) // over two devices, two steps send all of the bytes together
	c := &Calibration{
		Model: n.Name, CPU: backend.Processor(), Machine: costmodel.Machine{Device: d, Link: link},
		FLOPS: float64(flops), Bandwidth: float64(bandwidth), Launch: seconds(d.Launch),
		FitError: constants.Error, Call: p.Call.Seconds(),
		Optimizer: Update{optimizer, seconds(update.PerTensor), float64(update.Rate)},
		Link:      calibrate.NewLinkConstants(link),
	}
	c.list(n, p, measured)
	return c, nil
}

// measurements returns the profile's layers as a machine file has them, and as the fit takes
// them. Backwards in one piece are not fitted; they do what their halves do.
func measurements(p *measure.LayerProfile) (measured []costmodel.Measured, timings []calibrate.Timing) {
	for _, l := range p.Layers {
		measured = append(measured, costmodel.Measured{
			Layer: l.Layer.Signature(), Samples: int64(l.Samples),
			Forward: units.Duration(l.Forward), Backward: units.Duration(l.Backward),
			InputGradient: units.Duration(l.InputGradient), WeightGradient: units.Duration(l.WeightGradient),
		})
		for pass, took := range map[network.Pass]time.Duration{
			network.Forward:        l.Forward,
			network.InputGradient:  l.InputGradient,
			network.WeightGradient: l.WeightGradient,
		} {
			t := calibrate.Timing{Layer: l.Layer, Pass: pass, Samples: int64(l.Samples), Time: took}
			timings = append(timings, t)
		}
	}
	return calibrate.Smooth(measured), timings
}

// fitTransfers fits a time for each tensor and a rate. If noise hides that more bytes take
// longer, the rate is that of the largest transfer.
func fitTransfers(list []measure.TensorTime) (units.Duration, units.Rate) {
	var transfers []calibrate.MeasuredCopy
	for _, b := range list {
		transfers = append(transfers, calibrate.MeasuredCopy{Pieces: b.Tensors, Bytes: b.Bytes, Time: b.Time})
	}
	perPiece, rate := calibrate.FitTransfers(transfers)
	if rate == 0 && len(list) > 0 {
		largest := slices.MaxFunc(list, func(a, b measure.TensorTime) int { return cmp.Compare(a.Bytes, b.Bytes) })
		if largest.Time > 0 {
			perPiece, rate = 0, units.Rate(float64(largest.Bytes)/largest.Time.Seconds())
		}
	}
	return perPiece, units.Rate(calibrate.Significant(float64(rate)))
}

// fitUpdate fits the time of an optimizer's step, or of an average.
func fitUpdate(name string, list []measure.TensorTime) costmodel.MeasuredUpdate {
	u := costmodel.MeasuredUpdate{Name: name}
	u.PerTensor, u.Rate = fitTransfers(list)
	return u
}

// list lists the measured layers.
func (c *Calibration) list(n network.Network, p *measure.LayerProfile, measured []costmodel.Measured) {
	count := map[string]int{}
	for _, l := range n.Layers {
		count[l.Signature()]++
	}
	for i, m := range measured {
		l := p.Layers[i].Layer
		row := LayerRow{
			Layer: l.Name, Count: count[m.Layer], Signature: m.Layer, Samples: m.Samples,
			Forward: seconds(m.Forward), Backward: seconds(m.Backward),
			InputGradient: seconds(m.InputGradient), WeightGradient: seconds(m.WeightGradient),
		}
		flops := func(passes ...network.Pass) (sum float64) {
			for _, pass := range passes {
				sum += l.FLOPs(pass) * float64(m.Samples)
			}
			return sum
		}
		row.ForwardRate = perSecond(flops(network.Forward), row.Forward)
		row.BackwardRate = perSecond(flops(network.InputGradient, network.WeightGradient), row.Backward)
		c.Layers = append(c.Layers, row)
	}
}

// seconds turns a duration into a number for JSON.
func seconds(d units.Duration) float64 { return time.Duration(d).Seconds() }

// perSecond returns a rate; 0 if it took no time.
func perSecond(amount, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return amount / seconds
}
