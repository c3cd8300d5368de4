package reports

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports/table"
	"psim/results"
)

// The first line answers: what fits, on how many devices, and how several of them train.
func TestFineTuning(t *testing.T) {
	way := func(training, layout string, devices int, gb, tokens float64) results.Remedy {
		fits := gb <= 24
		return results.Remedy{
			Training: training, Layout: layout, Devices: devices, PeakMemory: int64(gb * 1e9), MemoryCapacity: 24e9,
			Fits: &fits, Tokens: tokens,
		}
	}
	r := results.Result{Work: results.Work{Device: "rtx-4090", SequenceLength: 2048}}
	r.FineTuning = []results.Remedy{
		way("full", "one device", 1, 130, 1500), way("full", "DDP", 4, 130, 1540), way("full", "FSDP", 4, 36, 1155),
		way("LoRA", "one device", 1, 18, 2200), way("LoRA", "DDP", 4, 18, 8900), way("LoRA", "FSDP", 4, 8, 1700),
	}
	text := func() string {
		var b bytes.Buffer
		out := table.NewPage(&b)
		writeFineTuning(out, r)
		require.NoError(t, out.Flush())
		return b.String()
	}
	require.Equal(t, `at 2,048 tokens a sample LoRA fits one rtx-4090 (18.0 GB of 24.0 GB, 2,200 tokens/s), on 4 use DDP (8,900 tokens/s; FSDP has 1,700)

  training  on           memory       of  fits  tokens/s
  full      one device   130 GB  24.0 GB  no       1,500
  full      DDP          130 GB  24.0 GB  no       1,540
  full      FSDP        36.0 GB  24.0 GB  no       1,155
  LoRA      one device  18.0 GB  24.0 GB  yes      2,200
  LoRA      DDP         18.0 GB  24.0 GB  yes      8,900
  LoRA      FSDP        8.00 GB  24.0 GB  yes      1,700

`, text())
	r.FineTuning = r.FineTuning[:2]
	require.Contains(t, text(), "neither full training nor LoRA or QLoRA fits at 2,048 tokens a sample")
	r.FineTuning = []results.Remedy{way("full", "one device", 1, 30, 1), way("full", "FSDP", 4, 10, 1166)}
	require.Contains(t, text(), "full fits 4 × rtx-4090 by FSDP alone (10.0 GB of 24.0 GB, 1,166 tokens/s)")
	r.FineTuning = append(r.FineTuning[:1], way("QLoRA", "pipeline", 2, 20, 300), way("QLoRA", "tensor group", 2, 21, 200))
	r.FineTuning[1].SequenceLength, r.FineTuning[2].SequenceLength = 1024, 1024
	require.Contains(t, text(), "neither full training nor LoRA or QLoRA fits at 2,048 tokens a sample; at 1,024 tokens a "+
		"sample QLoRA fits 2 × rtx-4090 as one pipeline (20.0 GB of 24.0 GB, 300 tokens/s)\n")
	require.Contains(t, text(), "QLoRA     pipeline       1,024  20.0 GB")
}
