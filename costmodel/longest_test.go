package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/collective"
)

// Communication that would be cut off at the longest time is refused, as compute is.
func TestTooLong(t *testing.T) {
	w := synced(workload(t, smallGPT(t), []int32{0, 1}, 1, 1), 0, true)
	w.Replicas = 2
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	price := func(change func(*costmodel.Machine)) error {
		m := machine()
		change(&m)
		_, err := costmodel.StepCosts(m, w.Staged(), g)
		return err
	}
	require.NoError(t, price(func(m *costmodel.Machine) { m.Link.Call = units.Duration(units.Longest / 2) }))
	require.ErrorContains(t, price(func(m *costmodel.Machine) { m.Link.Call = units.Duration(units.Longest) }), "link: the ALL_REDUCE of ")
	require.ErrorContains(t, price(func(m *costmodel.Machine) { m.Link.Bandwidth = 1e-6 }), "link: a message of ")
	require.ErrorContains(t, price(func(m *costmodel.Machine) { m.Link.Latency = units.Duration(units.Longest) }), "would take more than 27778 hours; check bandwidth and latency")
	require.ErrorContains(t, price(func(m *costmodel.Machine) {
		m.DevicesPerNode, m.Network = 1, m.Link
		m.Network.Bandwidth = 1e-6
	}), "network: a message of ")

	// What a group over two nodes takes comes of the link inside them, too: the key
	// that is the cause is named.
	w.Replicas = 4
	g = graphOf(t, w, orderOf(t, "gpipe", w))
	const longest = units.Duration(units.Longest)
	for want, change := range map[string]func(l, n *link.Link){
		"link: the ALL_REDUCE of 128 B over 4 ranks would take more than 27778 hours; check collective_call": func(l, _ *link.Link) { l.Call = longest },
		"hours; check collective_bandwidth": func(l, _ *link.Link) { l.Collective = 1e-6 },
		"network: the ALL_REDUCE of 128 B over 4 ranks would take more than 27778 hours; check collective_call": func(_, n *link.Link) { n.Call = longest },
		"hours; check bandwidth, latency and collective_call":                                                   func(l, n *link.Link) { l.Call, n.Call = longest, longest },
	} {
		require.ErrorContains(t, price(func(m *costmodel.Machine) {
			m.DevicesPerNode, m.Network = 4, m.Link
			change(&m.Link, &m.Network)
		}), want)
	}

	ring, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 8, Length: 1e9}.Graph()
	require.NoError(t, err)
	m := machine()
	m.Link.Bandwidth = 17
	_, err = costmodel.SpelledCosts(m, ring, ringSum)
	require.EqualError(t, err, "link: the ALL_REDUCE of 1.00 GB over 8 ranks would take more than 27778 hours; check bandwidth")
	m.Link.Bandwidth = 18
	_, err = costmodel.SpelledCosts(m, ring, ringSum)
	require.NoError(t, err)
}
