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
	"psim/internal/units"
)

// A setting is a value that the reader chose for a symbol.
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

// AnswersWith answers questions that ask for a formula with the reader's own values of
// their symbols, settings NAME=VALUE, and simulates these. A setting applies to every
// question that has its symbol. Questions about graphs have no symbols, and are answered as
// by Answers.
func AnswersWith(ctx context.Context, settings []string, ids ...string) ([]QuestionAnswer, error) {
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
		if err := q.refuse(q.sample()); err != nil {
			return nil, fmt.Errorf("%s: in question %s, %w", strings.Join(settings, " "), q.ID, err)
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
			return nil, fmt.Errorf("%s: in question %s, %w", s.text, q.ID, err)
		}
		found = true
		q.given = slices.Clone(q.given)
		q.given[at].Value, q.cases, q.grid = s.value, nil, nil // cases and grid are of the sample
	}
	if !found {
		return nil, s.unknown(wanted)
	}
	return changed, nil
}

// check returns an error if a value cannot be simulated.
func (s Symbol) check(value int64) error {
	switch {
	case value < s.Least || value > s.Most:
		return fmt.Errorf("%s must be %s to %s %s", s.Name, number(s.Least), number(s.Most), s.Unit)
	case value%s.Step != 0:
		return fmt.Errorf("%s must be a multiple of %s", s.Name, units.Plural(int(s.Step), "bit"))
	}
	return nil
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
	return fmt.Errorf("%s: unknown symbol %q; there are %s%s",
		s.text, s.name, strings.Join(described, ", "), nearest.Suggest(s.name, names))
}
