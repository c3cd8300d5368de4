package cli

import (
	"encoding/json"
	"image/png"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules"
)

// TestScheduleFile writes an order, reads it back in both notations, simulates
// it, and draws it.
func TestScheduleFile(t *testing.T) {
	userFolder(t)
	const line = "psim schedule interleaved-zero-bubble --stages 2 --microbatches 4 --virtual 2 --format csv"
	want, stderr, code := psim(t, line)
	require.Zero(t, code, stderr)
	require.NoError(t, os.WriteFile("mine.csv", []byte(want), 0o644))
	back, stderr, code := psim(t, "psim schedule mine.csv --format csv")
	require.Zero(t, code, stderr)
	require.Equal(t, want, back)

	messages, stderr, code := psim(t, line+" --messages")
	require.Zero(t, code, stderr)
	require.Contains(t, messages, "0F0,0SEND_F0,")
	require.NoError(t, os.WriteFile("messages.csv", []byte(messages), 0o644))
	for _, command := range []string{"psim schedule messages.csv --format csv", "psim schedule mine.csv --messages --format csv"} {
		back, stderr, code = psim(t, command)
		require.Zero(t, code, stderr)
		require.Equal(t, messages, back)
	}

	older, stderr, code := psim(t, "psim schedule messages.csv --messages --for torch-2.14 --format csv")
	require.Zero(t, code, stderr)
	require.Contains(t, messages, ",0WAIT_SEND_F0,")
	require.NotContains(t, older, "WAIT")
	require.NoError(t, os.WriteFile("older.csv", []byte(older), 0o644))
	back, stderr, code = psim(t, "psim schedule older.csv --messages --format csv")
	require.Zero(t, code, stderr)
	require.Equal(t, messages, back)
	_, stderr, code = psim(t, "psim schedule 1f1b --messages --for torch-2")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--for torch-2: use torch-2.15 or torch-2.14")

	byName, stderr, code := psim(t, "psim run gpipe --csv --set schedule.name=interleaved-zero-bubble --set schedule.virtual_stages=2 --set schedule.stages=2 --set schedule.microbatches=4")
	require.Zero(t, code, stderr)
	for _, file := range []string{"mine.csv", "messages.csv"} {
		toml := "[schedule]\nfile = \"" + file + "\"\n[model]\npreset = \"gpt2\"\nsequence_length = 1024\n[batch]\nglobal = 32\n[train]\nprecision = \"bf16\"\n[machine]\ndevice = \"a100-80gb-sxm\"\n"
		require.NoError(t, os.WriteFile("gpipe2.toml", []byte(toml), 0o644))
		byFile, stderr, code := psim(t, "psim run gpipe2.toml --csv")
		require.Zero(t, code, stderr)
		require.Equal(t, byName, byFile)
	}

	_, stderr, code = psim(t, "psim schedule mine.csv --plot mine.png")
	require.Zero(t, code)
	require.Equal(t, "wrote mine.png\n", stderr)
	f, err := os.Open("mine.png")
	require.NoError(t, err)
	defer f.Close()
	_, err = png.Decode(f)
	require.NoError(t, err)
}

// TestExecOrderFile executes an order that no schedule of the catalog has: 1F1B
// whose first rank takes microbatches 1, 0 and 2, with weight gradients last.
func TestExecOrderFile(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("mine.csv", []byte("0F1,0F0,0I1,0F2,0B0,0I2,0W2,0W1\n1F1,1I1,1F0,1I0,1F2,1B2,1W1,1W0\n"), 0o644))
	require.NoError(t, os.WriteFile("mine.toml", []byte(`
[schedule]
file = "mine.csv"
[model]
family = "gpt"
layers = 3
hidden = 16
heads = 2
vocab = 32
sequence_length = 8
[batch]
global = 6
[machine]
device = "cpu-core"
`), 0o644))
	_, stderr, code := psim(t, "psim exec mine.toml --gpus 2 --oversubscribe --steps 2 --repeats 1 --check weights --quiet --out -")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim exec mine.toml --gpus 3 --oversubscribe")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "the order of schedule.file is for 2 ranks")
}

// TestDeadlock checks the report on orders that hang with blocking sends.
func TestDeadlock(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim schedule 1f1b --stages 2 --microbatches 2 --deadlock")
	require.Zero(t, code, stderr)
	require.Equal(t, `every rank receives right before use:
  buffered sends: runs to its end
  blocking sends: hangs after 1 of 4 messages
    rank 0 is blocked at step 3, 0SEND_F1: rank 1 has not reached 1RECV_F1, its step 4; it is blocked at 1SEND_B0
    rank 1 is blocked at step 3, 1SEND_B0: rank 0 has not reached 0RECV_B0, its step 4; it is blocked at 0SEND_F1
every rank receives when it is sent (--messages):
  buffered sends: runs to its end
  blocking sends: runs to its end
`, stdout)
	require.NoError(t, os.WriteFile("late.csv", []byte("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"), 0o644))
	stdout, stderr, code = psim(t, "psim schedule late.csv --deadlock")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^messages where they are written:\n  buffered sends: runs to its end\n  blocking sends: hangs after 1 of 4`, stdout)
}

// The clock cycles in JSON equal the course's, and every schedule has clock cycles.
func TestScheduleClock(t *testing.T) {
	data, err := os.ReadFile("../../../schedules/testdata/clock_cycles.json")
	require.NoError(t, err)
	golden := map[string][][][2]int32{}
	require.NoError(t, json.Unmarshal(data, &golden))
	for name, size := range map[string]string{"m6_n2": "--microbatches 6 --stages 2", "m3_n3": "--microbatches 3 --stages 3"} {
		var got struct{ Cycles [][]cycleAction }
		stdout, stderr, code := psim(t, "psim schedule gpipe --clock --format json "+size)
		require.Zero(t, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &got))
		require.Len(t, got.Cycles, 2*len(golden[name]), "as many back")
		for i, want := range golden[name] {
			var pairs [][2]int32
			for _, a := range got.Cycles[i] {
				require.Equal(t, "F", a.Kind)
				pairs = append(pairs, [2]int32{a.Microbatch, a.Stage})
			}
			require.ElementsMatch(t, want, pairs, "%s, cycle %d", name, i)
		}
	}
	for _, s := range schedules.Names() {
		_, stderr, code := psim(t, "psim schedule "+s+" --clock --format csv")
		require.Zero(t, code, stderr)
	}
	for _, other := range []string{"--messages", "--deadlock"} {
		_, stderr, code := psim(t, "psim schedule 1f1b --clock "+other)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--clock: cannot be combined with")
	}
}
