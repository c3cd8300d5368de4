package questions

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"psim/internal/nearest"
)

// A setting is a symbol's value that the reader chose.
type setting struct {
	text, name string
	value      int64
}

var settingForm = regexp.MustCompile(`^([A-Za-z_]+)=([0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE]\+?[0-9]{1,2})?)$`)

// parseSetting reads NAME=VALUE, such as W=16 or P=1.5e9.
func parseSetting(text string) (setting, error) {
	parts := settingForm.FindStringSubmatch(text)
	if parts == nil {
		return setting{}, fmt.Errorf("%q: must be NAME=VALUE with a number, such as W=16 or P=7e9", text)
	}
	value, ok := new(big.Rat).SetString(parts[2])
	if !ok || !value.IsInt() || !value.Num().IsInt64() {
		return setting{}, fmt.Errorf("%s: the value must be a whole number of at most 9.2e18", text)
	}
	return setting{text, parts[1], value.Num().Int64()}, nil
}

// AnswersWith answers questions for a formula with the reader's own values of their
// symbols, settings NAME=VALUE, simulated again. A setting applies to every question that
// has its symbol. Questions about graphs, which have none, are answered as by Answers.
func AnswersWith(ctx context.Context, settings []string, ids ...string) ([]Answer, error) {
	wanted, err := selected(ids)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, text := range settings {
		s, err := parseSetting(text)
		if err == nil && seen[s.name] {
			err = fmt.Errorf("%s: a value of %s is given already", text, s.name)
		}
		if err == nil {
			seen[s.name] = true
			wanted, err = s.apply(wanted)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, q := range wanted {
		if q.needs != nil {
			if err := q.needs(q.sample()); err != nil {
				return nil, fmt.Errorf("%s: in question %s, %w", strings.Join(settings, " "), q.id, err)
			}
		}
	}
	return answerAll(ctx, nil, wanted)
}

// apply sets the symbol in all questions that have it.
func (s setting) apply(wanted []question) ([]question, error) {
	changed, found := slices.Clone(wanted), false
	for i := range changed {
		q := &changed[i]
		at := slices.IndexFunc(q.given, func(x Symbol) bool { return x.Name == s.name })
		if at < 0 {
			continue
		}
		if err := q.given[at].check(s.value); err != nil {
			return nil, fmt.Errorf("%s: in question %s, %w", s.text, q.id, err)
		}
		found = true
		q.given = slices.Clone(q.given)
		q.given[at].Value, q.cases, q.grid = s.value, nil, nil // these are of the sample
	}
	if !found {
		return nil, s.unknown(wanted)
	}
	return changed, nil
}

// unknown says which symbols there are.
func (s setting) unknown(wanted []question) error {
	var names, described []string
	for _, q := range wanted {
		for _, x := range q.given {
			text := x.Name + " (" + x.Unit + ")"
			if !slices.Contains(described, text) {
				names, described = append(names, x.Name), append(described, text)
			}
		}
	}
	if len(names) == 0 {
		return errors.New(s.text + ": questions about graphs have no symbols; give one for a formula, such as 1.6")
	}
	return fmt.Errorf("%s: unknown symbol %q; there are %s%s", s.text, s.name, strings.Join(described, ", "), nearest.Suggest(s.name, names))
}
