package schedules_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

func write(t tb, o order.Order) string {
	var b bytes.Buffer
	require.NoError(t, o.WriteCSV(&b))
	return b.String()
}

func TestCSV(t *testing.T) {
	require.Equal(t, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", write(t, orderOf(t, "1f1b", 2, 2)))

	for name, in := range map[string]string{
		"plain":                 "0F0,0B0\n1F0,1B0\n",
		"CR LF and idle slots":  "0F0,,,0B0\r\n,1F0,1B0,\r\n",
		"spaces":                " 0F0 , 0B0\n1F0,\t1B0",
		"byte order mark":       "\ufeff0F0,0B0\r\n1F0,1B0\r\n",
		"no newline at the end": "0F0,0B0\n1F0,1B0",
	} {
		o, err := order.ReadCSV(strings.NewReader(in))
		require.NoError(t, err, name)
		require.Equal(t, parse(t, "0F0 0B0\n1F0 1B0"), o, name)
	}
	o, err := order.ReadCSV(strings.NewReader("0F0\n,,\n\n1F0\n"))
	require.NoError(t, err)
	require.Equal(t, order.Order{parse(t, "0F0")[0], nil, nil, parse(t, "1F0")[0]}, o, "ranks may idle")
}

func TestCSVErrors(t *testing.T) {
	const legal = "an action is <stage><F, B, I or W><microbatch>, such as 2F0, or a SEND_F, RECV_F, SEND_B or RECV_B of that form; <stage>UNSHARD, RESHARD and REDUCE_GRAD have no microbatch"
	for in, want := range map[string]string{
		"":                                "the schedule is empty: one line per rank is needed, such as 0F0,0F1,0B0,0B1",
		"0F0,0BW":                         `line 1, cell 2: "0BW" has the kind BW; ` + legal,
		"0F0\n1F0,,0F0x":                  `line 2, cell 3: "0F0x" is not an action; ` + legal,
		"0f0":                             `line 1, cell 1: "0f0" is not an action; ` + legal,
		"-1F0":                            `line 1, cell 1: "-1F0" is not an action; ` + legal,
		"0SEND0":                          `line 1, cell 1: "0SEND0" has the kind SEND; ` + legal,
		"0UNSHARD0":                       `line 1, cell 1: "0UNSHARD0" has a microbatch: a UNSHARD is for a whole stage, such as 0UNSHARD`,
		"UNSHARD":                         `line 1, cell 1: "UNSHARD" is not an action; ` + legal,
		"0F":                              `line 1, cell 1: "0F" has no microbatch; ` + legal,
		"(0F7;7B3)OVERLAP":                `line 1, cell 1: "(0F7;7B3)OVERLAP" is not an action; ` + legal,
		"0F6,(0F7)OVERLAP_F_B":            `line 1, cell 2: "(0F7)OVERLAP_F_B" is not a pair; a pair is a forward and a backward, such as (0F3;3B1)OVERLAP_F_B`,
		"(0F7;7W3)OVERLAP_F_B":            `line 1, cell 1: "(0F7;7W3)OVERLAP_F_B" is not a pair; a pair is a forward and a backward, such as (0F3;3B1)OVERLAP_F_B`,
		"2147483648F0":                    `line 1, cell 1: "2147483648F0": stage 2147483648 is too large`,
		"0F99999999999999999999999999999": `line 1, cell 1: "0F99999999999999999999999999999": microbatch 99999999999999999999999999999 is too large`,
	} {
		_, err := order.ReadCSV(strings.NewReader(in))
		require.EqualError(t, err, want)
	}
	for _, cell := range []string{"x", "0X", "0F9", "0UNSHARD0", "0F0\x00", "(0F0)"} { // of what is no schedule a line may have any length
		_, err := order.ReadCSV(strings.NewReader(strings.Repeat(cell, 1_000_000/len(cell))))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 500, cell)
	}
}

func TestCSVRoundTrip(t *testing.T) {
	action := rapid.Custom(func(t *rapid.T) order.Action {
		return order.Action{
			Kind: rapid.SampledFrom([]graph.Kind{
				graph.Forward, graph.Backward, graph.InputGradient, graph.WeightGradient,
				graph.SendForward, graph.ReceiveForward, graph.SendBackward, graph.ReceiveBackward,
			}).Draw(t, "kind"),
			Stage:      rapid.Int32Range(0, 1<<31-1).Draw(t, "stage"),
			Microbatch: rapid.Int32Range(0, 1<<31-1).Draw(t, "microbatch"),
		}
	})
	sharding := rapid.Custom(func(t *rapid.T) order.Action {
		return order.Action{
			Kind:       rapid.SampledFrom([]graph.Kind{graph.Unshard, graph.Reshard, graph.ReduceGradient}).Draw(t, "collective"),
			Stage:      rapid.Int32Range(0, 1<<31-1).Draw(t, "stage"),
			Microbatch: graph.None,
		}
	})
	action = rapid.OneOf(action, action, sharding)
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(action, 0, 20), 1, 8).Draw(t, "order")
		o := order.Order(rows)
		for _, row := range o {
			for i := 1; i < len(row); i++ {
				forward, backward := row[i-1].Kind == graph.Forward, row[i].Kind == graph.Backward
				row[i-1].Pair = forward && backward && rapid.Bool().Draw(t, "pair")
			}
		}
		csv := write(t, o)
		back, err := order.ReadCSV(strings.NewReader(csv))
		require.NoError(t, err)
		require.Equal(t, o.String(), back.String())
		for r := range o {
			require.Equal(t, len(o[r]), len(back[r]))
			for i := range o[r] {
				require.Equal(t, o[r][i], back[r][i])
			}
		}
		require.Equal(t, csv, write(t, back))
		crlf, err := order.ReadCSV(strings.NewReader(strings.ReplaceAll(csv, "\n", "\r\n")))
		require.NoError(t, err)
		require.Equal(t, back, crlf)
	})
}

// runs requires that a schedule's order, wired, reaches its end.
func runs(t tb, s schedules.Schedule, shape graph.Shape) {
	t.Helper()
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	relax(t, graphOf(t, p), unit)
}

// The file of any schedule is that schedule: the same order, on the same ranks, and
// both copies of those that have two. With messages it is, too, but for pairs; and
// where PyTorch puts them, it runs to its end even if sends last until they are
// received.
func TestFilesOfSchedules(t *testing.T) {
	for _, s := range schedules.Catalog() {
		for _, shape := range served(s, 6, 14, 4) {
			want, err := s.Pipeline(shape, nil)
			require.NoError(t, err)
			read, err := order.ReadCSV(strings.NewReader(write(t, want.Order)))
			require.NoError(t, err)
			own, size, err := schedules.Custom("mine", read)
			require.NoError(t, err, "%s %+v", s.Name, shape)
			got, err := own.Pipeline(size, nil)
			require.NoError(t, err)
			require.Equal(t, want.Order, got.Order)
			require.Equal(t, want.Placement.First, got.Placement.First)
			require.Equal(t, want.Placement.Second, got.Placement.Second)
			require.Equal(t, want.Shape.Ranks, got.Shape.Ranks)
			require.Equal(t, want.Shape.Microbatches, got.Shape.Microbatches)

			messages, err := want.Order.WithMessages()
			require.NoError(t, err)
			require.NoError(t, messages.Hang(true))
			own, _, err = schedules.Custom("mine", messages)
			require.NoError(t, err)
			o, err := own.Order(size, nil)
			require.NoError(t, err)
			require.Equal(t, strings.NewReplacer("(", "", ")OVERLAP_F_B", "", ";", " ").Replace(want.Order.String()), o.String())
			require.Equal(t, want.Placement.Second, own.Placement(size).Second)
		}
	}
}

// Two copies are read off an order only where every stage has both, the first half
// of an even number of microbatches is on one, and two ranks share all their stages.
func TestCopiesInFiles(t *testing.T) {
	for name, c := range map[string]string{
		"legal":             "0F0 1F1 1B1 0B0\n1F0 0F1 0B1 1B0",
		"odd":               "0F0 1F2 1B2 0B0 0F1 0B1\n1F0 1F1 0F2 0B2 1B0 1B1",
		"halves mixed":      "0F0 1F1 1B1 0B0 0F3 0B3 1F2 1B2\n1F0 0F1 0B1 1B0 1F3 1B3 0F2 0B2",
		"one stage is once": "0F0 1F1 1B1 0B0 1F0 1B0\n0F1 0B1",
		"not in pairs":      "0F0 2F1 2B1 0B0\n1F0 0F1 0B1 1B0\n2F0 1F1 1B1 2B0",
	} {
		own, shape, err := schedules.Custom("mine", parse(t, c))
		if name != "legal" {
			require.ErrorContains(t, err, "; a stage is on one rank, or all are on two, one for each half of the microbatches\n", name)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []int32{1, 0}, own.Placement(shape).Second)
		runs(t, own, shape)
	}
	_, _, err := schedules.Custom("mine", parse(t, "0F0 1F1 1B1 0B0\n1F0 0F1 1B0"))
	require.ErrorContains(t, err, "rank 1: the backward 0B1 is missing")
}

// Whatever can be read can be written and read again, the same; and it is either
// refused or runs to its end.
func FuzzReadCSV(f *testing.F) {
	for _, seed := range []string{"0F0,0B0\n1F0,1B0\n", "0F0,,0BW0", " 0I0\r\n\r\n1W2147483647,", "00F01", "0F0\n0F0", "🦆", ",,,", "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", "0F0,2F0,2B0,0B0\n1F0,1B0", "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0I1", "0UNSHARD,0F0,0B0,0RESHARD,0REDUCE_GRAD", "0REDUCE_GRAD", "0F0,1F1,1B1,0B0\n1F0,0F1,0B1,1B0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		o, err := order.ReadCSV(strings.NewReader(in))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		back, err := order.ReadCSV(strings.NewReader(write(t, o)))
		require.NoError(t, err)
		require.Equal(t, o, back)
		if s, shape, err := schedules.Custom("fuzz", o); err == nil {
			runs(t, s, shape)
		} else {
			require.NotEmpty(t, err.Error())
		}
	})
}
