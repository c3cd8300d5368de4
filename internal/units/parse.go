package units

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"unicode"
)

// maxLength bounds the work spent on one value, and the length of messages
// that quote it. The longest spelling that String returns is shorter.
const maxLength = 400

// leading matches the number before a unit.
var leading = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?`)

// parseInt reads s in steps of the kind's first unit, rounding half up.
func (k *kind) parseInt(s string) (int64, error) {
	r, err := k.parse(s)
	if err != nil {
		return 0, err
	}
	twice := r.Add(r, r).Add(r, one)
	n := new(big.Int).Quo(twice.Num(), new(big.Int).Lsh(twice.Denom(), 1))
	if n.Sign() == 0 && twice.Cmp(one) > 0 {
		return 0, k.tooSmall(s)
	}
	if !n.IsInt64() {
		return 0, k.tooLarge(s)
	}
	return n.Int64(), nil
}

// parseFloat reads s in the kind's first unit, to the nearest float64.
func (k *kind) parseFloat(s string) (float64, error) {
	r, err := k.parse(s)
	if err != nil {
		return 0, err
	}
	f, _ := r.Float64()
	if f == 0 && r.Sign() > 0 {
		return 0, k.tooSmall(s)
	}
	if math.IsInf(f, 0) {
		return 0, k.tooLarge(s)
	}
	return f, nil
}

// parse reads s exactly, in the kind's first unit.
func (k *kind) parse(s string) (*big.Rat, error) {
	if len(s) > maxLength {
		return nil, fmt.Errorf("a %s of %d characters is too long; write for example %q", k.name, len(s), k.example)
	}
	number := leading.FindString(s)
	name := s[len(number):]
	if u, ok := k.find(strings.TrimPrefix(name, " ")); ok && number != "" {
		r, _ := new(big.Rat).SetString(number)
		return r.Mul(r, u.scale), nil
	}
	if err := k.malformed(s, number, name); err != nil {
		return nil, err
	}
	return nil, k.badUnit(s, number, strings.TrimPrefix(name, " "))
}

// malformed returns the error for a text that is not a number with a unit.
func (k *kind) malformed(s, number, rest string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return fmt.Errorf("the value is empty; write for example %q", k.example)
	case s[0] == '-' && leading.FindString(s[1:]) == s[1:] && len(s) > 1:
		return fmt.Errorf("%q is negative; a %s is zero or more, with a unit, such as %q", s, k.name, k.example)
	case s[0] == '-' && leading.MatchString(s[1:]):
		return fmt.Errorf("%q is negative; a %s is zero or more", s, k.name)
	case number != "" && strings.TrimSpace(rest) == "":
		return fmt.Errorf("%q has no unit; write for example %q", s, number+k.unit)
	case strings.TrimSpace(s) != s || strings.ContainsFunc(strings.TrimPrefix(rest, " "), unicode.IsSpace):
		return fmt.Errorf("%q has a space out of place; write for example %q", s, k.example)
	case number == "" || strings.ContainsAny(rest, "0123456789.,_"):
		return fmt.Errorf("%q is not a plain number with a unit; write for example %q", s, k.example)
	}
	return nil
}

// badUnit returns the error for a name that is not a unit of the kind, with units that are.
func (k *kind) badUnit(s, number, name string) error {
	if _, ok := k.find(name + "/s"); ok {
		return fmt.Errorf("%q is not per second; write %q", s, number+name+"/s")
	}
	for _, other := range kinds {
		if _, ok := other.find(name); ok {
			return fmt.Errorf("%q is a %s, not a %s; write for example %q", s, other.name, k.name, k.example)
		}
	}
	if bytes := byteUnit(name); bytes != "" && k == &sizes {
		return fmt.Errorf("%q is in bits, since b is bits; write %q for bytes, or %q for that many bits",
			s, number+bytes, eighth(number)+bytes)
	}
	if near := k.near(name); near != nil {
		return fmt.Errorf("unknown unit %q in %q; did you mean %s?", name, s, either(near))
	}
	return fmt.Errorf("unknown unit %q in %q; a %s is in %s", name, s, k.name, either(k.listed()))
}

// byteUnit returns the size unit with bytes for name's bits, or "": GB for Gb
// and Gbit.
func byteUnit(name string) string {
	prefix, ok := strings.CutSuffix(name, "bit")
	if !ok {
		prefix, ok = strings.CutSuffix(name, "b")
	}
	if _, known := sizes.find(prefix + "B"); !ok || !known {
		return ""
	}
	return prefix + "B"
}

// eighth divides a decimal number by eight.
func eighth(number string) string {
	r, _ := new(big.Rat).SetString(number)
	r.Mul(r, bit)
	n, _ := r.FloatPrec()
	return r.FloatString(n)
}

// near returns the units that differ from name in case only, else those that
// name is the beginning of.
func (k *kind) near(name string) []string {
	var same, longer []string
	for _, u := range k.units {
		if strings.EqualFold(u.name, name) && (u.use != alias || u.name[0] != 'K') {
			same = append(same, u.name)
		}
		if u.use != alias && strings.HasPrefix(strings.ToLower(u.name), strings.ToLower(name)) {
			longer = append(longer, u.name)
		}
	}
	if same != nil {
		return same
	}
	return longer
}

func (k *kind) listed() []string {
	var names []string
	for _, u := range k.units {
		if u.use != alias {
			names = append(names, u.name)
		}
	}
	return names
}

// either joins names as "a, b or c".
func either(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (k *kind) tooSmall(s string) error {
	return fmt.Errorf("%q would be rounded to zero; the smallest %s is %s", s, k.name, k.step)
}

func (k *kind) tooLarge(s string) error {
	return fmt.Errorf("%q is too large; the largest %s is %s", s, k.name, k.limit)
}
