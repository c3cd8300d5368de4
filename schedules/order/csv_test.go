package order_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

func TestCSV(t *testing.T) {
	require.Equal(t, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", ordertest.CSV(t, ordertest.Order(t, "1f1b", 2, 2)))

	for name, in := range map[string]string{
		"plain":                 "0F0,0B0\n1F0,1B0\n",
		"CR LF and idle slots":  "0F0,,,0B0\r\n,1F0,1B0,\r\n",
		"spaces":                " 0F0 , 0B0\n1F0,\t1B0",
		"byte order mark":       "\ufeff0F0,0B0\r\n1F0,1B0\r\n",
		"no newline at the end": "0F0,0B0\n1F0,1B0",
	} {
		o, err := order.ReadCSV(strings.NewReader(in))
		require.NoError(t, err, name)
		require.Equal(t, ordertest.Parse(t, "0F0 0B0\n1F0 1B0"), o, name)
	}
	o, err := order.ReadCSV(strings.NewReader("0F0\n,,\n\n1F0\n"))
	require.NoError(t, err)
	require.Equal(t, order.Order{ordertest.Parse(t, "0F0")[0], nil, nil, ordertest.Parse(t, "1F0")[0]}, o, "ranks may idle")
}

func TestCSVErrors(t *testing.T) {
	const legal = "an action is <stage><F, B, I or W><microbatch>, such as 2F0, or a SEND_F, RECV_F, WAIT_SEND_F, SEND_B, RECV_B or WAIT_SEND_B of that form; <stage>UNSHARD, RESHARD, REDUCE_GRAD and WAIT_REDUCE_GRAD have no microbatch"
	for in, want := range map[string]string{
		"":                                "the schedule is empty: one line per rank is needed, such as 0F0,0F1,0B0,0B1",
		"\xff\xfe0\x00F\x000\x00":         "is not text in UTF-8; one line per rank is needed, such as 0F0,0F1,0B0,0B1",
		"\x7fELF\x02\x01\x00":             "is not text in UTF-8; one line per rank is needed, such as 0F0,0F1,0B0,0B1",
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
				graph.WaitForward, graph.WaitBackward,
			}).Draw(t, "kind"),
			Stage:      rapid.Int32Range(0, 1<<31-1).Draw(t, "stage"),
			Microbatch: rapid.Int32Range(0, 1<<31-1).Draw(t, "microbatch"),
		}
	})
	sharding := rapid.Custom(func(t *rapid.T) order.Action {
		return order.Action{
			Kind:       rapid.SampledFrom([]graph.Kind{graph.Unshard, graph.Reshard, graph.ReduceGradient, graph.WaitGradient}).Draw(t, "collective"),
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
		csv := ordertest.CSV(t, o)
		back, err := order.ReadCSV(strings.NewReader(csv))
		require.NoError(t, err)
		require.Equal(t, o.String(), back.String())
		for r := range o {
			require.Equal(t, len(o[r]), len(back[r]))
			for i := range o[r] {
				require.Equal(t, o[r][i], back[r][i])
			}
		}
		require.Equal(t, csv, ordertest.CSV(t, back))
		crlf, err := order.ReadCSV(strings.NewReader(strings.ReplaceAll(csv, "\n", "\r\n")))
		require.NoError(t, err)
		require.Equal(t, back, crlf)
	})
}

// A file from before November 2024 has BW for the full backward and B for the
// input gradient; one without any BW is read as it stands.
func TestLegacyCSV(t *testing.T) {
	o, err := order.ReadCSV(strings.NewReader("0F0,0F1, 0B0,0BW1,0W0\r\n1F0,1F1,1BW0,1BW1\r\n"))
	require.NoError(t, err)
	require.Equal(t, ordertest.Parse(t, "0F0 0F1 0I0 0B1 0W0\n1F0 1F1 1B0 1B1"), o)
	o, err = order.ReadCSV(strings.NewReader("0F0,0B0"))
	require.NoError(t, err)
	require.Equal(t, ordertest.Parse(t, "0F0 0B0"), o)
}
