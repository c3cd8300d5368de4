package models

// newPresets lists networks whose blocks have more than those of Llama and Mixtral, each as its
// published config.json says. Sequence lengths are those of the pre-training's first stage,
// where a report names it.
func newPresets() []Preset {
	return []Preset{
		qwenPreset("qwen2.5-72b", "Qwen 2.5, 72.7B parameters (Qwen 2024)", Model{
			Family: FamilyLlama, Layers: 80, Hidden: 8192, Heads: 64, KVHeads: 8, FFNHidden: 29568, Vocab: 152064, QKVBias: true,
		}),
		qwenPreset("qwen3-30b-a3b", "Qwen 3, 30.5B parameters, 3.3B for a token (Qwen 2025)", Model{
			Family: FamilyMixtral, Layers: 48, Hidden: 2048, Heads: 32, KVHeads: 4, HeadDim: 128, FFNHidden: 6144, ExpertHidden: 768,
			Experts: 128, ExpertsPerToken: 8, Vocab: 151936, QKNorm: true,
		}),
		qwenPreset("qwen3-235b-a22b", "Qwen 3, 235B parameters, 22B for a token", Model{
			Family: FamilyMixtral, Layers: 94, Hidden: 4096, Heads: 64, KVHeads: 4, HeadDim: 128, FFNHidden: 12288, ExpertHidden: 1536,
			Experts: 128, ExpertsPerToken: 8, Vocab: 151936, QKNorm: true,
		}),
		{"deepseek-v3", "DeepSeek-V3, 671B parameters, 37B for a token (DeepSeek-AI 2024); mtp_layers = 1 adds its prediction of a second token", Model{
			Family: FamilyMixtral, Layers: 61, Hidden: 7168, Heads: 128, FFNHidden: 18432, ExpertHidden: 2048,
			Experts: 256, ExpertsPerToken: 8, SharedExperts: 1, DenseLayers: 3, RouterBias: true, ExpertGroups: 8, GroupsPerToken: 4,
			QLoraRank: 1536, KVLoraRank: 512, QKNopeHeadDim: 128, QKRopeHeadDim: 64, VHeadDim: 128, Vocab: 129280, SequenceLength: 4096,
		}},
		gptOSSPreset("gpt-oss-20b", "GPT-OSS, 20.9B parameters, 3.6B for a token without its embedding (OpenAI 2025)", 24, 32),
		gptOSSPreset("gpt-oss-120b", "GPT-OSS, 116.8B parameters, 5.1B for a token without its embedding", 36, 128),
	}
}

func qwenPreset(name, summary string, m Model) Preset {
	m.SequenceLength = 4096
	return Preset{name, summary, m}
}

func gptOSSPreset(name, summary string, layers, experts int) Preset {
	return Preset{name, summary, Model{
		Family: FamilyMixtral, Layers: layers, Hidden: 2880, Heads: 64, KVHeads: 8, HeadDim: 64, FFNHidden: 2880,
		Experts: experts, ExpertsPerToken: 4, Vocab: 201088, SequenceLength: 4096,
		Window: 128, FullAttentionEvery: 2, AttentionBias: true, MLPBias: true, Sinks: true,
	}}
}
