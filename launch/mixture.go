package launch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A list of layers in Python, as in ([0]*3+[1]*58), with what follows in a printed one.
var (
	wholeNumber = regexp.MustCompile(`\d+`)
	repeated    = regexp.MustCompile(`\[\s*([01])\s*\]\s*\*\s*(\d{1,5})`)
)

func firstNumber(text string) int {
	n, _ := strconv.Atoi(wholeNumber.FindString(text))
	return n
}

// mixtures says which layers have experts; nil if psim cannot read it.
func mixtures(freq string, layers int) []bool {
	list := make([]bool, 0, min(layers, 10000))
	switch n, err := strconv.Atoi(freq); {
	case freq == "":
		n = 1
		fallthrough
	case err == nil && n > 0:
		for i := range min(layers, 10000) {
			list = append(list, i%max(1, n) == 0)
		}
	case strings.Contains(freq, "*"):
		for _, r := range repeated.FindAllStringSubmatch(freq, -1) {
			n, _ := strconv.Atoi(r[2])
			list = append(list, slices.Repeat([]bool{r[1] == "1"}, min(n, 10000))...)
		}
	default:
		for _, digit := range wholeNumber.FindAllString(freq, -1) {
			list = append(list, digit != "0")
		}
	}
	if len(list) != layers {
		return nil
	}
	return list
}

// countMixtures counts the layers with experts.
func countMixtures(freq string, layers int) (n int) {
	for _, has := range mixtures(freq, layers) {
		if has {
			n++
		}
	}
	return n
}

// mixture maps experts.
func (m *mapper) mixture() {
	if m.integer("num_experts") == 0 {
		return
	}
	m.copy("model.experts")
	m.set("model.experts_per_token", max(1, m.integer("moe_router_topk")), "moe_router_topk")
	wide := m.integer("ffn_hidden_size")
	if n := m.integer("moe_ffn_hidden_size"); n > 0 {
		m.copy("model.expert_hidden")
		wide = n
	}
	if n := m.integer("moe_shared_expert_intermediate_size"); n > 0 {
		if n%wide != 0 {
			m.refuse(
				"moe_shared_expert_intermediate_size",
				fmt.Sprintf("psim's shared experts are as wide as the others (%d)", wide),
			)
		}
		m.set("model.shared_experts", n/wide, "moe_shared_expert_intermediate_size")
	}
	m.layersWithExperts()
	if f := m.number("moe_expert_capacity_factor"); f > 0 {
		m.set("model.capacity", f, "moe_expert_capacity_factor")
	}
	if m.on("moe_router_enable_expert_bias") {
		m.turn("model.router_bias")
	}
	m.copy("model.expert_groups")
	m.copy("model.groups_per_token")
	switch dispatcher := m.get("moe_token_dispatcher_type"); {
	case m.on("moe_enable_deepep") || dispatcher == "flex":
		m.set("parallel.dispatcher", "deepep", "moe_token_dispatcher_type", "moe_flex_dispatcher_backend")
		if backend := m.get("moe_flex_dispatcher_backend"); backend != "" && backend != "deepep" {
			m.leave("moe_flex_dispatcher_backend", "tokens are exchanged as by DeepEP")
		}
	case dispatcher != "alltoall" && m.integer("expert_model_parallel_size") > 1:
		m.leave("moe_token_dispatcher_type", "tokens are exchanged as by alltoall")
	}
}

// layersWithExperts maps which layers have experts.
func (m *mapper) layersWithExperts() {
	layers := m.integer("num_layers")
	has := mixtures(m.get("moe_layer_freq"), layers)
	first := slices.Index(has, true)
	if has == nil || first < 0 {
		m.refuse("moe_layer_freq", "psim reads a number, or a list with a 0 or a 1 for each of the layers")
		return
	}
	if !slices.Contains(has[first:], false) {
		if first > 0 {
			m.set("model.dense_layers", first, "moe_layer_freq")
		}
		return
	}
	every := slices.Index(has[first+1:], true) + 1
	for i := range has {
		if every < 1 || has[i] != (i%every == first%every) {
			m.refuse("moe_layer_freq", "psim has experts after the first layers, or in every n-th one")
			return
		}
	}
	m.set("model.moe_every", every, "moe_layer_freq")
}
