package models

import (
	"strings"

	"psim/costmodel/network"
)

// withNorms sets what RMSNorms keep where they are made of several kernels: a copy of their input in fp32, and
// what is multiplied with the gains (LlamaRMSNorm of transformers). Layers that share buffers go on sharing them.
func (m Model) withNorms(n network.Network) network.Network {
	b := m.between()
	if m.Norm != NormRMS || !b.copied {
		return n
	}
	made := map[*network.Buffer][]network.Buffer{}
	for i := range n.Layers {
		list := n.Layers[i].Buffers
		if len(list) == 0 {
			continue
		}
		if made[&list[0]] == nil {
			made[&list[0]] = copiedNorms(list, b.normed)
		}
		n.Layers[i].Buffers = made[&list[0]]
	}
	return n
}

// copiedNorms returns buffers with the inputs of RMSNorms in fp32.
func copiedNorms(list []network.Buffer, normed bool) (kept []network.Buffer) {
	for _, buffer := range list {
		name, isInput := strings.CutSuffix(buffer.Name, ".input")
		if !isInput || !isNorm(name) {
			kept = append(kept, buffer)
			continue
		}
		if normed {
			result := buffer
			result.Name, result.Lifetime = name+".normed", network.ForwardToWeight
			kept = append(kept, result)
		}
		buffer.ElementBytes = 4
		kept = append(kept, buffer)
	}
	return kept
}

// isNorm reports whether an operation of a block is an RMSNorm, in a model with such norms. Indexers have others.
func isNorm(name string) bool {
	short := name[strings.LastIndexByte(name, '.')+1:]
	return (strings.HasSuffix(short, "norm") || strings.HasPrefix(short, "ln_")) && !strings.HasPrefix(name, indexer)
}
