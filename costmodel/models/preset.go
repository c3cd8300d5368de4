package models

import (
	"fmt"
	"strings"
)

// Preset is a network known by name.
type Preset struct {
	Name    string
	Summary string // one line
	Model   Model  // without Preset; other keys given beside the name replace these
}

// Presets lists the networks that Model.Preset can name. Shapes are those of
// the published checkpoints or papers; vgg16 has the ten classes of CIFAR-10.
func Presets() []Preset {
	list := []Preset{
		gptPreset("gpt2", "GPT-2, 124M parameters (Radford 2019)", 12, 768, 12, 1024),
		gptPreset("gpt2-medium", "GPT-2, 355M parameters", 24, 1024, 16, 1024),
		gptPreset("gpt2-large", "GPT-2, 774M parameters", 36, 1280, 20, 1024),
		gptPreset("gpt2-xl", "GPT-2, 1.6B parameters", 48, 1600, 25, 1024),
		gptPreset("gpt3-small", "GPT-3 Small, 125M parameters (Brown 2020, table 2.1), dense attention as all of these", 12, 768, 12, 2048),
		gptPreset("gpt3-medium", "GPT-3 Medium, 350M parameters", 24, 1024, 16, 2048),
		gptPreset("gpt3-large", "GPT-3 Large, 760M parameters", 24, 1536, 16, 2048),
		gptPreset("gpt3-xl", "GPT-3 XL, 1.3B parameters; 16 heads, as 24 do not divide its hidden size", 24, 2048, 16, 2048),
		gptPreset("gpt3-2.7b", "GPT-3 2.7B", 32, 2560, 32, 2048),
		gptPreset("gpt3-6.7b", "GPT-3 6.7B", 32, 4096, 32, 2048),
		gptPreset("gpt3-13b", "GPT-3 13B; 5120 hidden, as 40 heads do not divide 5140", 40, 5120, 40, 2048),
		gptPreset("gpt3-175b", "GPT-3, 175B parameters", 96, 12288, 96, 2048),
		megatronPreset("megatron-22b", "GPT of Megatron-LM, 22B parameters (Korthikanti 2022, table 3), with dropout", 48, 6144, 64),
		megatronPreset("megatron-175b", "GPT of Megatron-LM, 175B parameters", 96, 12288, 96),
		megatronPreset("megatron-530b", "GPT of Megatron-LM, 530B parameters", 105, 20480, 128),
		megatronPreset("megatron-1t", "GPT of Megatron-LM, 1T parameters", 128, 25600, 160),
		llamaPreset("tinyllama-1.1b", "TinyLlama, 1.1B parameters (Zhang 2024)", 22, 2048, 32, 4, 5632, 32000, 2048),
		llamaPreset("llama2-7b", "Llama 2, 6.7B parameters (Touvron 2023)", 32, 4096, 32, 32, 11008, 32000, 4096),
		llamaPreset("llama2-13b", "Llama 2, 13B parameters", 40, 5120, 40, 40, 13824, 32000, 4096),
		llamaPreset("llama2-70b", "Llama 2, 69B parameters, grouped queries", 80, 8192, 64, 8, 28672, 32000, 4096),
		llamaPreset("llama3-8b", "Llama 3, 8.0B parameters (Meta 2024)", 32, 4096, 32, 8, 14336, 128256, 8192),
		llamaPreset("llama3-70b", "Llama 3, 71B parameters", 80, 8192, 64, 8, 28672, 128256, 8192),
		llamaPreset("llama3-405b", "Llama 3.1, 406B parameters (Grattafiori 2024)", 126, 16384, 128, 8, 53248, 128256, 8192),
		llamaPreset("mistral-7b", "Mistral, 7.2B parameters (Jiang 2023), full attention", 32, 4096, 32, 8, 14336, 32000, 8192),
		mixtralPreset("mixtral-8x7b", "Mixtral, 46.7B parameters, 12.9B for a token (Jiang 2024)", 32, 4096, 32, 8, 14336, 32000, 8192, 8, 2),
		mixtralPreset("mixtral-8x22b", "Mixtral, 140.6B parameters, 39.2B for a token (Mistral 2024)", 56, 6144, 48, 8, 16384, 32000, 8192, 8, 2),
	}
	return append(append(list, newPresets()...), []Preset{
		{presetVGG16, "VGG16 for CIFAR-10 with average pooling to 7×7, 134M parameters", Model{Family: familyVGG}},
		{presetVGG16 + pipelined, "VGG16 for CIFAR-10 without average pooling, 34M parameters, 13 layers", Model{Family: familyVGG}},
		{presetVGGMini, "a small VGG of vgg16's 14 layers, 10,534 parameters, to try runs and checks with", Model{Family: familyVGG}},
		{presetVGGMini + pipelined, "the same without average pooling, 13 layers", Model{Family: familyVGG}},
		{"mlp", "equal linear layers with ReLU, 8 × 1024 unless layers and hidden say otherwise", Model{Family: familyMLP, Layers: 8, Hidden: 1024}},
	}...)
}

func gptPreset(name, summary string, layers, hidden, heads, positions int) Preset {
	return Preset{name, summary, Model{
		Family: FamilyGPT, Layers: layers, Hidden: hidden, Heads: heads,
		Vocab: 50257, SequenceLength: positions, Positions: positions,
	}}
}

// megatronPreset has a vocabulary that is filled up to 51200, dropout, and the
// kernels of Megatron-LM.
func megatronPreset(name, summary string, layers, hidden, heads int) Preset {
	p := gptPreset(name, summary, layers, hidden, heads, 2048)
	p.Model.Vocab, p.Model.Dropout, p.Model.Kernels = 51200, 0.1, KernelsMegatron
	return p
}

func llamaPreset(name, summary string, layers, hidden, heads, kvHeads, ffn, vocab, sequence int) Preset {
	return Preset{name, summary, Model{
		Family: FamilyLlama, Layers: layers, Hidden: hidden, Heads: heads, KVHeads: kvHeads,
		FFNHidden: ffn, Vocab: vocab, SequenceLength: sequence,
	}}
}

func mixtralPreset(name, summary string, layers, hidden, heads, kvHeads, ffn, vocab, sequence, experts, active int) Preset {
	p := llamaPreset(name, summary, layers, hidden, heads, kvHeads, ffn, vocab, sequence)
	p.Model.Family, p.Model.Experts, p.Model.ExpertsPerToken = FamilyMixtral, experts, active
	return p
}

func findPreset(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("preset = %q: must be one of %s", name, strings.Join(names, ", "))
}
