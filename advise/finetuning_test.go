package advise

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
	"psim/results"
)

// rows predicts a network without a plan on a device, and lists the ways to fine-tune it there.
func rows(t *testing.T, network string, on configs.Target, sets ...string) (map[string]results.Remedy, bool) {
	c, err := configs.LoadOn(network, on, sets...)
	require.NoError(t, err)
	p, err := psim.Estimate(context.Background(), c)
	require.NoError(t, err)
	fits := FineTune(context.Background(), p)
	found := map[string]results.Remedy{}
	for _, row := range p.Result.FineTuning {
		found[row.Training+", "+row.Layout] = row
		again, err := c.With(row.Set...)
		require.NoError(t, err)
		tried, err := psim.Estimate(context.Background(), again)
		require.NoError(t, err)
		require.Equal(t, tried.Result.PeakMemory(), row.PeakMemory, "the settings give the row")
		require.Equal(t, tried.Devices(), row.Devices)
		require.Equal(t, row.PeakMemory <= row.MemoryCapacity, *row.Fits)
	}
	return found, fits
}

// An 8B on four cards of 24 GB: LoRA fits one, sharding it is slower over PCIe, and full training with fp32
// weights fits nowhere.
func TestFineTune(t *testing.T) {
	list, fits := rows(t, "llama3-8b", configs.Target{Device: "rtx-4090", Devices: 4}, "model.sequence_length=2048")
	require.True(t, fits)
	require.Len(t, list, 4*3)
	one := func(method string) results.Remedy {
		if row, ok := list[method+", one device, paged"]; ok {
			return row
		}
		return list[method+", one device"]
	}
	require.True(t, *one("LoRA r 16").Fits)
	require.False(t, *one("full, AdamW with fp32 weights").Fits)
	require.Less(t, one("QLoRA r 16").PeakMemory, one("LoRA r 16").PeakMemory)
	require.Less(t, one("LoRA r 16").PeakMemory, one("full in bf16, 8-bit AdamW").PeakMemory)
	require.Less(t, list["LoRA r 16, FSDP"].Tokens, list["LoRA r 16, DDP"].Tokens)
	for _, method := range []string{"LoRA r 16", "QLoRA r 16", "full in bf16, 8-bit AdamW"} {
		require.Less(t, list[method+", FSDP"].PeakMemory, list[method+", DDP"].PeakMemory)
	}

	_, fits = rows(t, "model:llama3-70b", configs.Target{Device: "rtx-4090", Devices: 1}, "model.sequence_length=2048")
	require.False(t, fits)
	for _, set := range []string{"train.adapter.kind=lora", "parallel.tensor=2", "train.optimizer=lion", "train.frozen=[embedding]"} {
		own, _ := rows(t, "model:llama3-70b", configs.Target{Device: "rtx-4090", Devices: 2}, set)
		require.Empty(t, own, "who says %s has a way", set)
	}
	two, fits := rows(t, "model:llama3-70b", configs.Target{Device: "rtx-4090", Devices: 2})
	require.True(t, fits, "both devices hold the network once, with shorter samples")
	require.False(t, *two["QLoRA r 16, FSDP"].Fits)
	least := two["double-quantised QLoRA r 16, tensor group"]
	require.True(t, *least.Fits)
	require.Equal(t, 4096, least.SequenceLength)
	small, fits := rows(t, "model:llama3.2-1b", configs.Target{Device: "rtx-4070"})
	require.True(t, fits, "a 1B trains whole on 12 GB")
	require.True(t, *small["full in bf16, 8-bit AdamW, one device, paged"].Fits)
	half, fits := rows(t, "model:llama2-7b", configs.Target{Device: "rtx-2080ti", Devices: 1}, "model.sequence_length=1024")
	require.True(t, fits, "QLoRA in fp16")
	require.Len(t, half, 3, "no way in bf16 alone")
	none, fits := rows(t, "gpt2", configs.Target{Device: "rtx-4090"})
	require.Empty(t, none, "what fits needs no other way")
	require.False(t, fits)
}
