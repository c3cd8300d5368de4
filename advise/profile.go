package advise

import (
	"fmt"
	"slices"
	"strings"

	"psim"
	"psim/profiles"
	"psim/results"
	"psim/results/judged"
	"psim/schedules/graph"
)

// CompareProfile holds a profiled step against a prediction, class by class.
func CompareProfile(
	p *psim.Prediction, s *profiles.ProfiledStep,
) (*judged.Profiled, []judged.ClassTime, error) {
	if n := p.Result.Devices; s.World > 0 && n > 0 && s.World != n {
		return nil, nil, fmt.Errorf("--profile: the traces are of a run of %d ranks, and the configuration has "+
			"%d devices; they must be of one run", s.World, n)
	}
	if n := p.Result.Devices; n > 0 && s.Most >= n {
		return nil, nil, fmt.Errorf("--profile: a trace is of rank %d, and the configuration has %d devices, ranks 0 "+
			"to %d; they must be of one run", s.Most, n, n-1)
	}
	if device := p.Experiment.Machine.Device; s.Host && device.Multiprocessors > 0 {
		return nil, nil, fmt.Errorf("--profile: the traces have no kernels of a GPU, and the configuration's device "+
			"is %s; profile that run with ProfilerActivity.CUDA, or name the machine of the traces (--set "+
			"machine.device=cpu-core)", device.Name)
	}
	e, err := p.Explain()
	if err != nil {
		return nil, nil, err
	}
	made := profiled(s)
	if device := p.Result.Device; s.Device != "" && !s.Host && !named(device, s.Device) {
		made.Configured = device
	}
	return made, byClass(e.ByClass, &s.Times), nil
}

// named reports whether a driver's name of a device, such as NVIDIA A100-SXM4-80GB, may be that of a device of the
// catalog, such as a100-80gb-sxm: whether it has the first part with a digit.
func named(device, driver string) bool {
	digit := func(part string) bool { return strings.ContainsAny(part, "0123456789") }
	parts := strings.Split(device, "-")
	i := slices.IndexFunc(parts, digit)
	return i < 0 || strings.Contains(strings.ToLower(driver), parts[i])
}

// profiled makes of a profiled step what a judgment has.
func profiled(s *profiles.ProfiledStep) *judged.Profiled {
	made := &judged.Profiled{
		StepTime: s.Times.Sum().Seconds(), Step: s.Number, Found: s.Found, Steps: s.Steps,
		Shortest: s.Shortest.Seconds(), Longest: s.Longest.Seconds(), Ranks: s.Ranks, World: s.World,
		Device: s.Device, Host: s.Host, Messages: s.Times[profiles.Messages].Seconds(),
		Collectives: s.Collectives, Matched: s.Matched, Incomplete: s.Incomplete,
	}
	if s.Matched > 0 {
		made.Transfer, made.Skew = s.Times[profiles.Transfer].Seconds(), s.Times[profiles.Skew].Seconds()
		made.Clocks, made.Apart = s.Clocks.Seconds(), s.Apart.Seconds()
	}
	if s.Last >= 0 {
		made.Last, made.Waited = &s.Last, s.Waited.Seconds()
	}
	return made
}

// The classes that a profile and a prediction have in common.
const (
	computation   = "computation" // of a prediction from times of whole passes or layers
	communication = "communication"
	copies        = "copies"
)

// commonClass returns the class of a profile that a prediction's class is compared with.
func commonClass(class string) string {
	switch class {
	case "products", "attention", "between", graph.Updating, graph.Launches, graph.Waiting:
		return class
	case "measured", "forward", "backward", "backward_input", "backward_weight":
		return computation
	case graph.Averaging:
		return "between"
	case graph.HostCopies:
		return copies
	}
	return communication // messages and collectives, by their kind of group
}

// byClass puts both sides together. Where the prediction has a time for all computation, so has the profile.
func byClass(predicted map[string]float64, measured *profiles.ClassTimes) []judged.ClassTime {
	expected := map[string]float64{}
	for _, class := range results.SortedClasses(predicted) {
		expected[commonClass(class)] += predicted[class]
	}
	found := map[string]float64{}
	for c, t := range measured {
		name := profiles.Class(c).String()
		if c := profiles.Class(c); c == profiles.Skew || c == profiles.Messages {
			name = communication
		}
		found[name] += t.Seconds()
	}
	if expected[computation] > 0 {
		for _, by := range []map[string]float64{expected, found} {
			for _, class := range []string{"products", "attention", "between"} {
				by[computation] += by[class]
				delete(by, class)
			}
		}
	}
	order := []string{
		computation, "products", "attention", "between", graph.Updating, communication, copies, graph.Launches,
		graph.Waiting,
	}
	var list []judged.ClassTime
	for _, class := range order {
		if expected[class] > 0 || found[class] > 0 {
			list = append(list, judged.ClassTime{Class: class, Predicted: expected[class], Measured: found[class]})
		}
	}
	return list
}
