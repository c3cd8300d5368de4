package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The Markdown shows the pictures from the folder that --out names, as in docs/accuracy.md.
func TestPublishedPictures(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim validate --published --markdown --out accuracy zero-bubble-2023-table-5")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "](accuracy/tables.md)")
	require.Len(t, contents(t, "accuracy"), 3)
	require.Contains(t, contents(t, "accuracy")["zero-bubble-2023-table-5.md"], "](zero-bubble-bubbles.png)")
	require.NoError(t, os.RemoveAll("accuracy"))
	require.NoError(t, os.Mkdir("accuracy", 0o755))
	require.NoError(t, os.WriteFile("accuracy/zero-bubble-bubbles.png", []byte("mine"), 0o644))
	_, stderr, code = psim(t, "psim validate --published --out accuracy zero-bubble-2023-table-5")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "zero-bubble-bubbles.png was not written by psim")
	require.Equal(t, "mine", contents(t, "accuracy")["zero-bubble-bubbles.png"])
}

// A run with a stack prints its interval, or why there is none, as a search does.
func TestInterval(t *testing.T) {
	userFolder(t)
	for line, want := range map[string]string{
		"run llama3-70b --out -": `(?m)^  interval       \d.* s to \d.* s holds 80 % of such runs, by \d+ published runs of \d+ sources \(.* \d+ % products and attention\)`,
		"run llama3-70b --out - --set model.preset=mixtral-8x7b --set model.layers=8 --set batch.global=64 --set schedule.stages=2 --set schedule.virtual_stages=1 --set schedule.name=1f1b": `(?m)^  interval .* of \d+ sources \(.*`,
		"run llama3-70b --out - --set machine.device=l4":                `(?m)^  interval       unknown: no published run on l4 is compared with predictions$`,
		"search llama3-70b --devices 64 --fix batch.micro --rows 2":     `(?s)  best .* %  .*of the first 2 plans the first has a chance of \d+ % to be the fastest when measured.*\n  its step: \d.* s to \d.* s holds 80 % of such runs`,
		"search llama3-70b --devices 64,128 --fix batch.micro --rows 1": `(?s)\n  64 devices: \d.* s to .*\n  128 devices: \d.* s to `,
	} {
		stdout, stderr, code := psim(t, "psim "+line)
		require.Zero(t, code, stderr)
		require.Regexp(t, want, stdout, line)
	}
	for _, line := range []string{"run gpipe --out -", "run course-timeline --out -"} {
		stdout, stderr, code := psim(t, "psim "+line)
		require.Zero(t, code, stderr)
		require.NotContains(t, stdout+stderr, "interval", line)
	}
}
