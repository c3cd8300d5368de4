package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules"
	"psim/sim"
)

// The published makespans; testdata/README.md of schedules names the source.
func TestPublishedMakespans(t *testing.T) {
	data, err := os.ReadFile("../schedules/testdata/orders.json")
	require.NoError(t, err)
	var entries []struct {
		Schedule string
		P, M     int
		Makespan map[string]time.Duration
		Peak     []int `json:"peak_in_flight"`
	}
	require.NoError(t, json.Unmarshal(data, &entries))
	models := map[string]schedules.Costs{
		"unit": uniform(1, 2, 0), "unit_comm1": uniform(1, 2, 1),
		"hetero": uniform(3, 7, 0), "hetero_comm2": uniform(3, 7, 2),
	}
	require.Len(t, entries, 8)
	for _, e := range entries {
		require.Len(t, e.Makespan, len(models))
		for name, want := range e.Makespan {
			t.Run(fmt.Sprintf("%s P=%d M=%d %s", e.Schedule, e.P, e.M, name), func(t *testing.T) {
				trace, err := sim.Run(build(t, e.Schedule, e.P, e.M), models[name])
				require.NoError(t, err)
				s := schedules.Summarize(trace)
				require.Equal(t, want, s.Makespan)
				for r, peak := range e.Peak {
					require.Equal(t, peak, s.Ranks[r].PeakInFlight)
				}
			})
		}
	}
}

// The measured stage times of the course: three stages, two microbatches.
// 1F1B is the faster of the two because the last stage's backwards start
// early.
func TestCourseTimeline(t *testing.T) {
	const cs = 10 * time.Millisecond
	forward := [3][2]time.Duration{{158, 138}, {313, 292}, {58, 49}}
	backward := [3][2]time.Duration{{580, 741}, {1258, 1307}, {253, 268}}
	costs := schedules.Costs{Task: func(t *schedules.Task) schedules.Cost {
		switch t.Kind {
		case schedules.Forward:
			return schedules.Cost{Busy: forward[t.Stage][t.Microbatch] * cs}
		case schedules.Backward:
			return schedules.Cost{Busy: backward[t.Stage][t.Microbatch] * cs}
		}
		return schedules.Cost{}
	}}
	for name, want := range map[string]time.Duration{"gpipe": 43710 * time.Millisecond, "1f1b": 40880 * time.Millisecond} {
		trace, err := sim.Run(build(t, name, 3, 2), costs)
		require.NoError(t, err)
		require.Equal(t, want, trace.End(), name)
	}
}

// 20 GB over 8 ranks at 100 Gbit/s: 14 steps of 2.5 GB, 0.2 s each.
func TestRingAllReduce(t *testing.T) {
	const bandwidth = 12.5e9 // bytes per second
	costs := schedules.Costs{Task: func(t *schedules.Task) schedules.Cost {
		if t.Kind == schedules.Send {
			return schedules.Cost{Busy: time.Duration(float64(t.Bytes) / bandwidth * 1e9), Link: t.Rank + 1}
		}
		return schedules.Cost{}
	}}
	for _, c := range schedules.Conventions() {
		g, err := schedules.Ring{Collective: schedules.RingAllReduce, Ranks: 8, Length: 5e9, Element: 4, Convention: c.Name}.Graph()
		require.NoError(t, err)
		trace, err := sim.Run(g, costs)
		require.NoError(t, err)
		s := schedules.Summarize(trace)
		require.Equal(t, 2800*time.Millisecond, s.StepTime)
		require.Equal(t, 8*14, s.Messages)
		for _, rank := range s.Ranks {
			require.EqualValues(t, 35e9, rank.SentBytes)
			require.Equal(t, 2800*time.Millisecond, rank.ExposedCommunication)
		}
	}
}
