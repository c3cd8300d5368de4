// Package titles says in words what a result is of, for the titles of pictures: its model, its
// schedule, how many stages and microbatches it has, and on what it was predicted or measured. All
// of it is in the result, so that a saved one has the same title.
package titles

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"psim/configs/catalog"
	"psim/internal/units"
	"psim/results"
)

// entry is a row of the catalog of titles.
type entry struct{ title, parameters string }

var entries = sync.OnceValue(func() map[string]entry {
	all, titles := map[string]entry{}, catalog.Texts("titles", "title")
	parameters := catalog.Texts("titles", "parameters")
	for i, name := range catalog.Names("titles") {
		all[name] = entry{titles[i], parameters[i]}
	}
	return all
})

// named returns the title of an entry of a catalog, by default its name.
func named(name string) string {
	if e, ok := entries()[name]; ok {
		return e.title
	}
	return oneLine(name)
}

// oneLine writes out control characters, which a name in a file may contain.
func oneLine(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Of describes a result: "GPT-2 124M, GPipe, 4 stages × 8 microbatches, predicted on 4 A100".
func Of(r results.Result) string {
	return Join(Model(r), Schedule(r), Sizes(r), r.Kind+Place(r))
}

// Subject names the model of a result and its devices: "GPT-2 124M on 4 A100".
func Subject(r results.Result) string { return Join(strings.TrimSpace(Model(r) + Place(r))) }

// Join joins the parts of a title that are not empty. The first begins with a capital letter.
func Join(parts ...string) string {
	text := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// Model names the model of a result, "" if it has none. A preset of other sizes than usual is named
// with its number of parameters.
func Model(r results.Result) string {
	model, _ := r.Config["model"].(map[string]any)
	preset, _ := model["preset"].(string)
	e, known := entries()[preset]
	adapted, frozen := r.Adapter(), r.Parameters
	if adapted != "" {
		adapted, frozen = ", "+adapted, r.Parameters-r.TrainedParameters
	}
	switch {
	case r.Parameters == 0:
		return ""
	case known && e.parameters == units.FormatCount(frozen):
		return e.title + adapted
	case known:
		return withoutSize(e.title) + " of " + parameters(r.Parameters) + adapted
	}
	return "a model of " + parameters(r.Parameters) + adapted
}

// parameters writes a number of parameters in three digits: "31.3M parameters".
func parameters(n int64) string {
	text := strings.TrimSuffix(units.FormatFLOPS(float64(n)), "FLOP/s")
	return strings.NewReplacer(" ", "", "k", "K", "G", "B").Replace(text) + " parameters"
}

// withoutSize cuts a size, such as 124M or 8×7B, off the end of a title.
func withoutSize(title string) string {
	words := strings.Fields(title)
	if last := words[len(words)-1]; len(words) > 1 && unicode.IsDigit(rune(last[0])) &&
		strings.ContainsAny(last, "MBT") {
		words = words[:len(words)-1]
	}
	return strings.Join(words, " ")
}

// Schedule names the schedule of a result, "" if a single device leaves none to choose.
func Schedule(r results.Result) string {
	switch zero := zeroStage(r); {
	case r.Hybrid():
		return named("hsdp")
	case r.FullySharded:
		return ScheduleNamed(r.Schedule, true)
	case r.Schedule == "ddp" && zero > 0:
		return fmt.Sprintf("%s with ZeRO %d", named(r.Schedule), zero)
	case r.Schedule == "ddp" && r.DataParallel <= 1:
		return ""
	}
	return named(r.Schedule)
}

// zeroStage reads how the optimizer's states are sharded.
func zeroStage(r results.Result) int {
	parallel, _ := r.Config["parallel"].(map[string]any)
	switch zero := parallel["zero"].(type) {
	case int:
		return zero
	case int64:
		return int(zero)
	case float64: // of a file
		return int(zero)
	}
	return 0
}

// ScheduleNamed names a schedule, which may be fully sharded, or a collective.
func ScheduleNamed(name string, sharded bool) string {
	switch {
	case sharded && name == "ddp":
		return named("fsdp")
	case sharded:
		return named(name) + " with " + named("fsdp")
	}
	return named(name)
}

// Sizes counts what the schedule divides: "4 stages × 8 microbatches × 2 replicas, tensor 8". A
// collective by itself has ranks.
func Sizes(r results.Result) string {
	if r.Config["collective"] != nil {
		return units.Plural(r.Stages, "rank")
	}
	text := Shape(r.Stages, r.VirtualStages, r.Microbatches, r.DataParallel)
	for _, x := range []struct {
		name string
		size int
	}{{"tensor", r.TensorParallel}, {"context", r.ContextParallel}, {"experts", r.ExpertParallel}} {
		if x.size > 1 {
			text += fmt.Sprintf(", %s %d", x.name, x.size)
		}
	}
	return strings.TrimPrefix(text, ", ")
}

// Shape counts the stages, microbatches and replicas of a schedule. A rank may have several stages.
func Shape(ranks, virtual, microbatches, replicas int) string {
	var parts []string
	switch {
	case ranks > 1 && virtual > 1:
		parts = append(parts, units.Plural(ranks, "rank"), units.Plural(virtual, "stage"))
	case ranks > 1:
		parts = append(parts, units.Plural(ranks, "stage"))
	case virtual > 1:
		parts = append(parts, units.Plural(virtual, "stage")+" of one rank")
	}
	if microbatches > 1 || ranks > 1 && microbatches == 1 {
		parts = append(parts, units.Plural(microbatches, "microbatch"))
	}
	if replicas > 1 {
		parts = append(parts, units.Plural(replicas, "replica"))
	}
	return strings.Join(parts, " × ")
}

// Place says on which devices a result was predicted or measured: " on 4 A100". Times that the
// configuration gives have no device.
func Place(r results.Result) string {
	times, _ := r.Config["times"].(map[string]any)
	switch {
	case r.Device == "" && times != nil:
		return " from given times"
	case r.Devices == 0:
		return ""
	case r.Device == "" || r.Device == "inline":
		return " on " + units.Plural(r.Devices, "device")
	}
	if name := named(r.Device); strings.HasSuffix(name, " core") {
		return " on " + units.Plural(r.Devices, name)
	}
	return fmt.Sprintf(" on %s %s", units.FormatCount(int64(r.Devices)), named(r.Device))
}
