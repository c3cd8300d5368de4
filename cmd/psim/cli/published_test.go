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
	require.Contains(t, stdout, "](accuracy/zero-bubble-bubbles.png)")
	require.Len(t, contents(t, "accuracy"), 1)
	require.NoError(t, os.RemoveAll("accuracy"))
	require.NoError(t, os.Mkdir("accuracy", 0o755))
	require.NoError(t, os.WriteFile("accuracy/zero-bubble-bubbles.png", []byte("mine"), 0o644))
	_, stderr, code = psim(t, "psim validate --published --out accuracy zero-bubble-2023-table-5")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "zero-bubble-bubbles.png was not written by psim")
	require.Equal(t, "mine", contents(t, "accuracy")["zero-bubble-bubbles.png"])
}

// A run with a stack prints the errors of earlier predictions, as a search does, but not as JSON or
// CSV.
func TestHowSure(t *testing.T) {
	userFolder(t)
	const sure = "predictions of dense networks with megatron-te in bf16 on h100-80gb-sxm were "
	const mixture = " --set model.preset=mixtral-8x7b --set model.layers=8 --set batch.global=64"
	for line, want := range map[string]string{
		"run llama3-70b --out -" + mixture + " --set schedule.stages=2 --set schedule.virtual_stages=1 --set schedule.name=1f1b":              "\nhow sure: predictions of mixtures of experts with megatron-te in bf16 on h100-80gb-sxm were ",
		"run llama3-70b --out - --set train.precision=fp8":                                                                                    "\nhow sure: predictions of dense networks with megatron-te in fp8 on h100-80gb-sxm were ",
		"run llama3-70b --out - --set train.precision=fp16":                                                                                   "\nhow sure: no published run of dense networks with megatron-te in fp16 on h100-80gb-sxm has been ",
		"search llama3-70b --devices 64 --fix batch.micro --rows 1 --vary train.precision=fp8":                                                "\n  predictions of dense networks with megatron-te in fp8 on h100-80gb-sxm were ",
		"search llama3-70b --devices 64 --fix batch.micro --schedules ddp --vary parallel.tensor=8 --rows 99 --vary train.precision=bf16,fp8": "\n  of further plans: " + sure,

		"run llama3-70b --out -":                                     "\nhow sure: " + sure,
		"run llama3-70b --out - --quiet":                             "\nhow sure: " + sure,
		"search llama3-70b --devices 64 --fix batch.micro --rows 1":  "\n  " + sure,
		"run llama3-70b --out - --set machine.device=h200-141gb-sxm": "\nhow sure: no published run of dense networks with megatron-te in bf16 on h200-141gb-sxm has been compared with these constants (docs/accuracy.md)\n",
	} {
		stdout, stderr, code := psim(t, "psim "+line)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, want, line)
	}
	for _, line := range []string{"run gpipe --out -", "run course-timeline --out -", "run llama3-70b --json", "run llama3-70b --csv"} {
		stdout, stderr, code := psim(t, "psim "+line)
		require.Zero(t, code, stderr)
		require.NotContains(t, stdout+stderr, "how sure", line)
	}
}
