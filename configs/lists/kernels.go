package lists

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"psim/configs"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/wrap"
)

// WriteKernels prints the sets of kernels that model.kernels names, in columns separated by
// tabs. If verbose it also prints the kernels of a block, of the embedding and of the head, and
// the sources of the host's times.
func WriteKernels(w io.Writer, verbose bool) {
	fmt.Fprintln(w, "kernels\thost\twhat lies between products")
	for _, set := range models.KernelSets() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", set.Name, hostOperation(set), set.Summary)
	}
	if !verbose {
		return
	}
	fmt.Fprintln(w, "\nhost, for a kernel, where no stack is set:")
	for _, k := range models.KernelSets() {
		sets := k.Sets
		if len(sets) == 0 {
			sets = []string{"no time"}
		}
		describeSets(w, k.Name, sets, string(k.Source))
	}
	for _, set := range models.KernelSets() {
		for _, family := range []string{"gpt", "llama"} {
			writeKernels(w, set, family)
		}
	}
	writeRecipes(w)
}

// hostOperation returns the time that the host takes to launch a kernel, or "-" for none.
func hostOperation(k models.KernelSet) string {
	for _, set := range k.Sets {
		if value, ok := strings.CutPrefix(set, "machine.host.operation = "); ok {
			return strings.Trim(value, `"`)
		}
	}
	return "-"
}

// writeRecipes prints what narrow products need in addition to the products, in bytes per number.
func writeRecipes(w io.Writer) {
	fmt.Fprintln(w, "\nnarrow\tkernels of a cast\tbytes moved\tkept for W\tweight held\tgathered\tmoved once a step")
	for _, r := range training.Recipes() {
		fmt.Fprintf(w, "%s\t%d\t%.5g\t%.5g\t%.5g\t%.5g\t%.5g\n", r.Name, r.Kernels, r.Cast, r.Kept, r.Held,
			r.Gathered, r.Step)
	}
}

// writeKernels prints the kernels of a set, for a model of a family.
func writeKernels(w io.Writer, set models.KernelSet, family string) {
	const s, h, heads, vocab = 1024, 512, 4, 2048
	m := models.Model{
		Family: family, Layers: 1, Hidden: h, Heads: heads, FFNHidden: 4 * h, Vocab: vocab, SequenceLength: s,
		Kernels: set.Name, Attention: models.AttentionFlash,
	}
	if family == "gpt" {
		m.Dropout = 0.1
	}
	if set.UnfusedAttention {
		m.Attention = models.AttentionUnfused
	}
	n, err := m.Network()
	if err != nil {
		return // the sizes are ours, and tested to build
	}
	fmt.Fprintf(w, "\n%s, %s\toperation\tbytes per\tkernels F\tI\tW\tread F\tI\tW\twritten F\tI\tW\tprecision\n",
		set.Name, family)
	seen := map[string]bool{}
	for _, l := range n.Layers {
		for _, o := range l.Ops {
			if name := o.Name[strings.LastIndex(o.Name, ".")+1:]; !seen[name+l.Name] {
				seen[name+l.Name] = true
				cells := []string{l.Name, o.Name, per(o)}
				for _, p := range passes {
					cells = append(cells, fmt.Sprint(o.Kernels(p, 1)))
				}
				var written []string
				for _, p := range passes {
					r, w := moved(o, p)
					cells, written = append(cells, r), append(written, w)
				}
				fmt.Fprintln(w, strings.Join(append(append(cells, written...), precision(o)), "\t"))
			}
		}
	}
}

// per names the elements that the bytes of an operation are counted by.
func per(o network.Op) string {
	switch {
	case o.Class == network.Product && o.Weights() > 0:
		return "weight"
	case o.Class == network.Product:
		return "product"
	}
	return "result"
}

// passes lists the passes of a layer, in the order of the table.
var passes = []network.Pass{network.Forward, network.InputGradient, network.WeightGradient}

// moved returns the bytes that a pass reads and those that it writes, in 16 bits: for each
// element of the result, or for each weight if a kernel accompanies a product.
func moved(o network.Op, p network.Pass) (read, written string) {
	const element = 2
	switch {
	case o.Class == network.Product && p == network.WeightGradient && o.GradientMoved > 0:
		return fmt.Sprint(element * (o.GradientMoved - o.GradientWrites)), fmt.Sprint(element * o.GradientWrites)
	case o.Class == network.Product || o.Moved[p] == 0:
		return "-", "-"
	}
	each := func(bytes int64) string {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/float64(o.Elements)), ".0")
	}
	r, w := o.ReadWritten(p, 1, element)
	return each(r), each(w)
}

// precision names the precision that the bytes of an operation are in.
func precision(o network.Op) string {
	switch {
	case o.Class == network.Product && o.GradientMoved == 0:
		return "-"
	case slices.Max(o.Mask[:]) > 0:
		return o.Numbers.String() + ", mask of 1 byte"
	}
	return o.Numbers.String()
}

// WriteStacks prints the programs that train.stack names and what each offers, in columns
// separated by tabs, or if verbose the settings that each stands for, with their sources and the measured runs
// that they stand on.
func WriteStacks(w io.Writer, standing Standing, verbose bool) {
	if verbose {
		for _, s := range configs.Stacks() {
			standing.describeStack(w, s)
		}
		return
	}
	fmt.Fprintln(w, "stack\tkernels\twhat it is")
	for _, s := range configs.Stacks() {
		kernels := strings.Trim(strings.TrimPrefix(s.Sets[0], "model.kernels = "), `"`)
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, kernels, s.Description)
	}
	fmt.Fprintln(w, "\noffers\tZeRO\trecomputation\ttensor\tsequence\tcontext\texperts\t8 and 4 bits\tschedules")
	for _, s := range configs.Stacks() {
		cells := []string{s.Name}
		for _, o := range offers(s) {
			cells = append(cells, o.values)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// A Standing says on what measured runs a constant of a stack stands on a chip, or everywhere if that is "". It
// returns "" for what is not fitted.
type Standing func(stack, chip, key string) string

// of adds to each setting on what it stands.
func (standing Standing) of(stack, chip string, sets []string) (list []string) {
	for _, set := range sets {
		key, _, _ := strings.Cut(set, " = ")
		if on := standing(stack, chip, key); on != "" {
			set += "  (" + on + ")"
		}
		list = append(list, set)
	}
	return list
}

// describeStack prints all of a stack.
func (standing Standing) describeStack(w io.Writer, s configs.Stack) {
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Description)
	describeSets(w, "everywhere", standing.of(s.Name, "", s.Sets), s.Source["sets"])
	if s.Mixtures != nil {
		describeSets(w, "in mixtures", s.Mixtures, s.Source["mixtures"])
	}
	for _, chip := range slices.Sorted(maps.Keys(s.Devices)) {
		sets := standing.of(s.Name, chip, s.Devices[chip])
		if s.DiffersOnBoards(chip) {
			sets = append(sets, "other boards: shares of the peak in proportion to their own")
		}
		describeSets(w, "on "+chip, sets, s.Source[chip])
	}
	var lines []string
	for _, o := range offers(s) {
		lines = append(lines, o.name+": "+o.values)
	}
	if s.Unsearched != nil {
		lines = append(lines, "not searched: "+strings.Join(s.Unsearched, ", "))
	}
	describeSets(w, "offers", lines, s.Source["offers"])
	if s.Unsaid != nil {
		describeSets(w, "by a flag", s.Unsaid, s.Source["unsaid"])
	}
	fmt.Fprintln(w)
}

// An offer is the values of one kind that a stack offers.
type offer struct{ name, values string }

// offers summarises what a stack offers.
func offers(s configs.Stack) []offer {
	zero := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Zero), " ", ", "), "[]")
	yesNo := map[bool]string{true: "yes", false: "no"}
	sequence := "no"
	if slices.Contains(s.Sequence, true) {
		sequence = "yes"
		if !slices.Contains(s.Sequence, false) {
			sequence = "always"
		}
	}
	words := slices.DeleteFunc(slices.Clone(s.Recompute), func(r string) bool {
		return r != "none" && r != "selective" && r != "full"
	})
	if len(words) < len(s.Recompute) {
		words = append(words, "modules")
	}
	narrow := "no"
	wide := func(p string) bool { return strings.HasSuffix(p, "32") || strings.HasSuffix(p, "16") }
	if list := slices.DeleteFunc(slices.Clone(s.Precision), wide); len(list) > 0 {
		narrow = strings.Join(list, ", ")
	}
	return []offer{
		{"ZeRO", zero}, {"recomputation", strings.Join(words, ", ")},
		{"tensor", yesNo[s.Tensor]}, {"sequence", sequence},
		{"context", yesNo[s.Context]}, {"experts", yesNo[s.Experts]},
		{"8 and 4 bits", narrow}, {"schedules", strings.Join(s.Schedules, ", ")},
	}
}

// describeSets prints settings, with their source below them.
func describeSets(w io.Writer, where string, sets []string, source string) {
	for _, set := range sets {
		fmt.Fprintf(w, "  %-12s%s\n", where, set)
		where = ""
	}
	fmt.Fprintf(w, "%14s%s\n", "", wrap.Text(source, 84, strings.Repeat(" ", 14)))
}
