package launch

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Repetitions in a layout: (tt|)*3 and t*3.
var (
	groupTimes = regexp.MustCompile(`\(([^()]+)\)\*(\d{1,4})`)
	layerTimes = regexp.MustCompile(`([EtmL|])\*(\d{1,4})`)
)

// mostLayout limits a layout that is written out.
const mostLayout = 1 << 16

// unrolled writes the repetitions of a layout out, as in Ett|t*3|L; "" if it is too long.
func unrolled(layout string) string {
	layout = strings.NewReplacer(",", "", " ", "").Replace(layout)
	for _, pattern := range []*regexp.Regexp{groupTimes, layerTimes} {
		layout = pattern.ReplaceAllStringFunc(layout, func(text string) string {
			part := pattern.FindStringSubmatch(text)
			n, _ := strconv.Atoi(part[2])
			return strings.Repeat(part[1], min(n, mostLayout/len(part[1])))
		})
		if len(layout) > mostLayout {
			return ""
		}
	}
	return layout
}

// layout maps which layers every stage has: E is the embedding, t a block, m a module that predicts a further
// token, and L the last norm and the head. It returns false if the arguments have no layout.
func (m *mapper) layout(stages int) bool {
	text := m.get("pipeline_model_parallel_layout")
	if text == "" {
		return m.counted(stages)
	}
	var list []int
	normed, further := false, strings.Contains(text, "m")
	for part := range strings.SplitSeq(unrolled(text), "|") {
		if i := strings.IndexFunc(part, func(r rune) bool { return !strings.ContainsRune("EtmL", r) }); i >= 0 {
			m.refuse(
				"pipeline_model_parallel_layout",
				fmt.Sprintf("psim reads E, t, m, L, | and repetitions, not %q", part[i:i+1]),
			)
			return true
		}
		layers := len(part)
		if strings.Contains(part, "L") && !further || strings.Contains(part, "m") && !normed {
			layers, normed = layers+1, true // the last norm, which modules for further tokens come after
		}
		list = append(list, layers)
	}
	if len(list)%stages != 0 {
		m.refuse(
			"pipeline_model_parallel_layout",
			fmt.Sprintf("its %d parts must be a multiple of %d stages", len(list), stages),
		)
	}
	m.cut(list, stages, "pipeline_model_parallel_layout")
	return true
}

// counted cuts a pipeline whose embedding or loss counts as a block; it returns false if neither does.
func (m *mapper) counted(stages int) bool {
	embedding, loss := m.on("account_for_embedding_in_pipeline_split"), m.on("account_for_loss_in_pipeline_split")
	if !embedding && !loss {
		return false
	}
	blocks, parts := m.integer("num_layers"), stages*m.chunks(stages)
	if embedding {
		blocks++
	}
	if loss {
		blocks++
	}
	if n := m.integer("num_layers_per_virtual_pipeline_stage"); n > 0 && blocks%n == 0 {
		parts = blocks / n
	}
	if blocks%parts != 0 {
		m.refuse(
			"num_layers",
			fmt.Sprintf("%d layers, with those that count as one, do not divide into %d parts", blocks, parts),
		)
		return true
	}
	list := make([]int, parts)
	for i := range list {
		list[i] = blocks / parts
	}
	if !embedding {
		list[0]++
	}
	if list[parts-1]++; !loss {
		list[parts-1]++ // the norm and the head
	}
	m.cut(list, stages, "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
	return true
}

// cut sets the layers of every stage.
func (m *mapper) cut(list []int, stages int, from ...string) {
	if chunks := len(list) / stages; chunks > 1 {
		m.set("schedule.name", "interleaved-1f1b", from...)
		m.set("schedule.virtual_stages", chunks, from...)
	}
	m.set("schedule.partition", list, from...)
}
