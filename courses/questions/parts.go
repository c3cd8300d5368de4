package questions

import (
	"fmt"
	"slices"
	"strings"
)

// A Subquestion is one thing that a question asks, such as 1.1a, with its answer.
type Subquestion struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// partID names a part of a question by its place.
func (e entry) partID(i int) string { return e.ID + string(rune('a'+i)) }

// asked reports whether a part is to be answered: all are, unless some were selected.
func (q question) asked(id string) bool { return q.only == nil || slices.Contains(q.only, id) }

// answered lists the parts that are asked for, each with its answer.
func (q question) answered(answer func(i int, id string) string) (list []Subquestion) {
	for i, text := range q.Parts {
		if id := q.partID(i); q.asked(id) {
			list = append(list, Subquestion{id, text, answer(i, id)})
		}
	}
	return list
}

// Select turns arguments into ids of questions and parts, each once and in the order of the
// assignment. The number of a question that has several entries, such as 3.3, stands for all of
// them; 1.1 stands for all of its parts, and 1.1a for one. Without arguments it selects every
// question.
func Select(ids []string) ([]string, error) {
	if len(ids) == 0 {
		return IDs(), nil
	}
	wanted, list := map[string]bool{}, []string{}
	for _, id := range ids {
		found := matching(id)
		if found == nil {
			return nil, fmt.Errorf("unknown question %q; use one of %s", id, strings.Join(IDs(), ", "))
		}
		for _, name := range found {
			wanted[name] = true
		}
	}
	for _, q := range catalog() {
		if wanted[q.ID] {
			list = append(list, q.ID)
			continue
		}
		for i := range q.Parts {
			if id := q.partID(i); wanted[id] {
				list = append(list, id)
			}
		}
	}
	return list, nil
}

// matching lists the questions and parts that an argument stands for.
func matching(argument string) (ids []string) {
	for _, q := range catalog() {
		if q.ID == argument || strings.TrimRight(q.ID, "abcd") == argument {
			ids = append(ids, q.ID)
		}
		for i := range q.Parts {
			if id := q.partID(i); id == argument {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// selected lists the questions that Select makes of ids, with the parts that are asked for.
func selected(ids []string) (list []question, err error) {
	known, err := Select(ids)
	if err != nil {
		return nil, err
	}
	for _, q := range catalog() {
		whole := slices.Contains(known, q.ID)
		for i := range q.Parts {
			if id := q.partID(i); !whole && slices.Contains(known, id) {
				q.only = append(q.only, id)
			}
		}
		if whole || q.only != nil {
			list = append(list, q)
		}
	}
	return list, nil
}
