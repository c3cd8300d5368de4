package understood

import (
	"fmt"
	"math"

	"psim/internal/units"
)

// OtherWork says how the work of the log's step differs from that of the plan, so that their times do not compare.
func (m *LoggedSteps) OtherWork() (list []string) {
	if m.OtherNetwork() {
		list = append(list, fmt.Sprintf("the log is of another network: it trains %s parameters, and the "+
			"configuration %s", units.FormatCount(m.Parameters),
			units.FormatCount(m.Plan.Parameters)))
	}
	if m.Said > 0 && m.Batch > 0 && m.Said != m.Batch {
		text := fmt.Sprintf("the log's steps are of %s, and the configuration says %s", units.Plural(m.Batch, "sample"),
			units.FormatCount(int64(m.Said)))
		if !m.otherDevices() { // which are said to be the reason
			text += fmt.Sprintf(": --set batch.global=%d predicts these", m.Batch)
		}
		list = append(list, text)
	}
	if n := m.Plan.Tokens; n > 0 && m.Tokens > 0 && n != m.Tokens {
		list = append(list, fmt.Sprintf("the log's samples have %d tokens, and the configuration says %d: "+
			"--set model.sequence_length=%[1]d predicts these", m.Tokens, n))
	}
	return list
}

// OtherPlan says how the log's plan of the same work differs.
func (m *LoggedSteps) OtherPlan() (list []string) {
	if m.otherDevices() {
		list = append(list, fmt.Sprintf("the log shows %s, and the configuration has %d: --devices %d, or a "+
			"[parallel] of as many, predicts these", units.Plural(m.Devices, "device"), m.Plan.Devices, m.Devices))
	}
	n, alike := m.Plan.Microbatches, !m.otherDevices() && len(m.OtherWork()) == 0
	if m.Rounds > 0 && n > 0 && m.Rounds != n && alike {
		list = append(list, fmt.Sprintf("the log says that gradients of %s are summed in a step, and the "+
			"configuration of %d: --set batch.micro, or schedule.microbatches, predicts these",
			units.Plural(m.Rounds, "microbatch"), n))
	}
	for _, d := range m.Settings {
		list = append(list, fmt.Sprintf("the log says %s = %s, and the configuration %s", d.From, d.Log, d.Script))
	}
	return list
}

// otherDevices reports whether the log shows another number of devices than the plan has. DeepSpeed and the Trainer
// count replicas.
func (m *LoggedSteps) otherDevices() bool {
	if (m.Program == "deepspeed" || m.Program == "trainer") && m.Plan.Replicas != m.Plan.Devices {
		return false
	}
	return m.Devices > 0 && m.Plan.Devices > 0 && m.Devices != m.Plan.Devices
}

// OtherNetwork reports whether the log's parameters are more than a hundredth off those of the plan. The Trainer counts
// a device's share where FSDP has flattened parameters.
func (m *LoggedSteps) OtherNetwork() bool {
	near := func(a, b float64) bool { return math.Abs(a/b-1) <= 0.01 }
	is, want := float64(m.Parameters), float64(m.Plan.Parameters)
	if is == 0 || want == 0 || near(is, want) {
		return false
	}
	return m.Program != "trainer" || !near(is*float64(max(1, m.Devices, m.Plan.Devices)), want)
}
