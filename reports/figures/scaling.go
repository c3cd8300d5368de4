package figures

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"psim/results"
)

// stepTime draws the time of an epoch if all results know it, and otherwise the time of a
// step; for measured results that is the mean over their steps.
func stepTime(r Request) (Picture, error) {
	what, label, over, of := "step time", "time of a step", "", timeOf
	if !anyLacksEpochs(r.Items) {
		what, label, over, of = "time of an epoch", "time of an epoch", "epochs", epochOf
	}
	b, err := newBars(what, r, seconds(label), func(i *Item) (value, error) { return of(i.Run.Result), nil })
	if err != nil {
		return nil, err
	}
	b.over = over
	return b.picture(), nil
}

// timeOf returns the step time of a result and its deviation.
func timeOf(r results.Result) value {
	if m := r.Measurement; m != nil && m.StepTimeMean > 0 {
		return value{mean: m.StepTimeMean, deviation: m.StepTimeStd}
	}
	v := value{mean: r.StepTime}
	if i := r.Interval; i != nil {
		v.low, v.high = i.Low, i.High
	}
	return v
}

// epochOf returns the time of an epoch and its deviation.
func epochOf(r results.Result) value {
	v := timeOf(r).times(r.Epochs.Time / timeOf(r).mean)
	v.mean, v.deviation = r.Epochs.Time, r.Epochs.TimeStd
	return v
}

// times returns a value that is a number of times as large.
func (v value) times(by float64) value {
	return value{v.mean * by, v.deviation * by, v.low * by, v.high * by}
}

// anyLacksEpochs reports whether a result does not know the time of an epoch.
func anyLacksEpochs(items []Item) bool {
	return slices.ContainsFunc(items, func(i Item) bool { return i.Run.Result.Epochs == nil })
}

// A rate is the throughput that all results have, in tokens or else in samples: over epochs if
// all results know them, and otherwise over the steps.
type rate struct{ unit, over string }

func rateOf(items []Item) rate {
	r := rate{unit: "tokens"}
	for _, i := range items {
		if i.Run.Result.Throughput.Tokens == 0 {
			r.unit = "samples"
		}
	}
	if !anyLacksEpochs(items) {
		r.over = "epochs"
	}
	return r
}

// pick returns the number of a throughput in the unit.
func (r rate) pick(t results.Throughput) float64 {
	if r.unit == "tokens" {
		return t.Tokens
	}
	return t.Samples
}

// of finds the rate of a result and its deviation.
func (r rate) of(i *Item) (value, error) {
	mean, time := r.pick(i.Run.Result.Throughput), timeOf(i.Run.Result)
	if r.over == "epochs" {
		e := i.Run.Result.Epochs
		mean, time = r.pick(e.Throughput), epochOf(i.Run.Result)
		if e.ThroughputStd != nil {
			return value{mean: mean, deviation: r.pick(*e.ThroughputStd)}, nil
		}
	}
	switch {
	case mean == 0:
		return value{}, fmt.Errorf("%s: has no throughput, because no samples pass through it; "+
			"a [model] and a [batch] make them", i.named())
	case time.mean == 0:
		return value{mean: mean}, nil
	}
	return value{mean: mean, deviation: mean * time.deviation / time.mean}, nil
}

// named returns the name of an item for errors: its path if it has one.
func (i *Item) named() string {
	if i.Path != "" {
		return i.Path
	}
	return i.Label
}

// throughput draws samples or tokens per second, and the ideal: as many as there would be
// if every device added as much as the first.
func throughput(r Request) (Picture, error) {
	rate := rateOf(r.Items)
	b, err := newBars("throughput", r, numbers(rate.unit+" per second", "", 1), rate.of)
	if err != nil {
		return nil, err
	}
	b.over = rate.over
	base := fewest(b.groups)
	b.lineText = "ideal: in proportion to the devices"
	b.line = func(i *Item) (float64, bool) {
		from := base[i.experiment()+i.Run.Result.Kind]
		return b.values[from.first].mean * float64(i.devices()) / float64(from.first.devices()), from.several
	}
	return b.picture(), nil
}

// A base is the result of an experiment on the fewest devices.
type base struct {
	first   *Item
	several bool // there are other results, on more devices
}

// fewest finds the base of every experiment and kind.
func fewest(groups []group) map[string]base {
	list := map[string]base{}
	for _, g := range groups {
		for _, i := range g.items() {
			key := i.experiment() + i.Run.Result.Kind
			b, seen := list[key]
			switch {
			case !seen:
				b.first = i
			case i.devices() < b.first.devices():
				b = base{i, true}
			case i.devices() > b.first.devices():
				b.several = true
			}
			list[key] = b
		}
	}
	return list
}

// efficiency draws the throughput per device as a fraction of the throughput per device
// with the fewest devices.
func efficiency(r Request) (Picture, error) {
	rate := rateOf(r.Items)
	b, err := newBars("efficiency", r, numbers("throughput per device", "%", 100), rate.of)
	if err != nil {
		return nil, err
	}
	b.over = rate.over
	bases, several := fewest(b.groups), false
	shares := map[*Item]value{}
	for i, v := range b.values {
		from := bases[i.experiment()+i.Run.Result.Kind]
		several = several || from.several
		scale := float64(from.first.devices()) / float64(i.devices()) / b.values[from.first].mean
		shares[i] = v.times(scale)
	}
	if !several {
		return nil, errors.New(
			"efficiency needs results of one experiment on different numbers of devices, such as ddp=1 ddp=2")
	}
	b.values = shares
	b.line = func(*Item) (float64, bool) { return 1, true }
	b.level = true
	b.lineText = "ideal: as much as on the fewest devices"
	b.text = func(x float64) string { return fmt.Sprintf("%.0f %%", math.Round(100*x)) }
	return b.picture(), nil
}
