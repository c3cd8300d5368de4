package measure_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/measure"
)

// TestProbe: a single stall shows in one moment, and a program that runs all the time shows in
// every moment.
func TestProbe(t *testing.T) {
	ms := func(fastest, mean time.Duration) measure.Probe {
		return measure.Probe{Fastest: fastest * time.Millisecond, Mean: mean * time.Millisecond}
	}
	join := func(moments ...measure.Probe) (p measure.Probe) {
		for _, m := range moments {
			p = p.Best(m)
		}
		return p
	}
	require.Equal(t, ms(10, 11), join(ms(10, 60), ms(10, 11), ms(11, 12)), "a stall")
	require.Equal(t, ms(10, 19), join(ms(10, 20), ms(11, 19), ms(10, 21)), "a program beside it")
}
