package lists

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/internal/units"
)

// WriteNetwork prints what a network is as comments of TOML: its parameters, its FLOPs, and what its layers hold. A
// preset is "" for a file.
func WriteNetwork(w io.Writer, n network.Network, preset string) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	summary, source := provenance(preset)
	if summary != "" {
		fmt.Fprintln(&text, summary)
	}
	line("parameters", "%s", units.FormatCount(n.Parameters()))
	if active := n.ActiveParameters(); active < n.Parameters() {
		line("of a token", "%s", units.FormatCount(active))
	}
	flops, tokens := n.ModelFLOPs()/3, n.TokensPerSample
	if tokens > 1 {
		line("forward", "%.4g FLOPs of a token, in a sample of %s tokens", flops/float64(tokens),
			units.FormatCount(int64(tokens)))
	} else {
		line("forward", "%.4g FLOPs of a sample", flops)
	}
	if source != "" {
		line("source", "%s", source)
	}
	for _, kind := range kinds(n.Layers) {
		first := n.Layers[kind[0]]
		name := first.Name
		if len(kind) > 1 {
			name = fmt.Sprintf("%d like %s", len(kind), name)
		}
		line(name, "%s", strings.Join(holds(first), ", "))
	}
	table.Flush()
	for l := range strings.Lines(text.String()) {
		fmt.Fprint(w, "# ", strings.TrimRight(l, " \n"), "\n")
	}
}

// provenance returns what a preset is, and where its sizes are from: its own source, or that of the one before it of
// its series.
func provenance(preset string) (summary, source string) {
	for _, p := range models.Presets() {
		if _, rest, found := strings.Cut(p.Summary, "("); found {
			source, _, _ = strings.Cut(rest, ")")
		} else if !p.Transformer() {
			source = ""
		}
		if p.Name == preset {
			return p.Summary, source
		}
	}
	return "", ""
}

// kinds groups layers that compute and hold the same.
func kinds(layers []network.Layer) (list [][]int) {
	seen := map[string]int{}
	for i, l := range layers {
		key := fmt.Sprint(l.Signature(), window(l), l.Repeatable)
		if !l.Repeatable { // blocks alone are many
			key = l.Name
		}
		k, known := seen[key]
		if !known {
			k = len(list)
			seen[key], list = k, append(list, nil)
		}
		list[k] = append(list[k], i)
	}
	return list
}

// holds names the parts of a layer, with their parameters.
func holds(l network.Layer) (parts []string) {
	sizes, names := map[string]int64{}, []string(nil)
	for _, t := range slices.Concat(l.Params, l.Frozen) {
		part := partOf(l, t)
		if _, known := sizes[part]; !known {
			names = append(names, part)
		}
		sizes[part] += t.Shape.Elements()
	}
	for _, name := range names {
		parts = append(parts, name+" "+units.FormatCount(sizes[name]))
	}
	if tokens := window(l); tokens > 0 {
		parts = append(parts, fmt.Sprintf("a window of %s tokens", units.FormatCount(int64(tokens))))
	}
	for _, t := range slices.Concat(l.Tied, l.FrozenTied) {
		parts = append(parts, t.Name+" of another layer")
	}
	if len(parts) == 0 {
		return []string{"no parameters"}
	}
	return parts
}

// partOf names the part of a layer that has a tensor.
func partOf(l network.Layer, t network.Tensor) string {
	name := strings.TrimPrefix(t.Name, l.Name+".")
	first, _, _ := strings.Cut(name, ".")
	switch {
	case t.Expert:
		return fmt.Sprintf("%d experts (%d of a token)", l.Experts, l.Active)
	case t.Norm:
		return "norms"
	case strings.Contains(name, "shared_expert"):
		return "shared experts"
	case l.Experts > 0 && strings.Contains(name, "gate.") && !strings.Contains(name, "self_attn"):
		return "router"
	}
	return first
}

// window returns the tokens that attention of a layer has for each token, and 0 if these are all.
func window(l network.Layer) int {
	for _, op := range l.Ops {
		if op.Counted > 0 {
			return int(op.Counted*float64(op.Rows) + 0.5)
		}
	}
	return 0
}
