package questions

import (
	"fmt"

	"psim/internal/units"
)

// Symbols that several questions have, with what can be simulated.

func parameters(n int64) Symbol {
	return Symbol{"P", "parameters", "parameters", n, 1000, 1e12, 1}
}

func workers(n int64) Symbol { return Symbol{"W", "workers", "workers", n, 1, 512, 1} }

func variables(meaning string, n int64) Symbol {
	return Symbol{"K", meaning, "variables", n, 0, 16, 1}
}

func bandwidth(n int64) Symbol {
	return Symbol{"B", "bandwidth between two workers, Gb/s", "Gb/s", n, 1, 1e6, 1}
}

// bits makes a symbol for the size of a number, in whole bytes.
func bits(name, meaning string, n int64) Symbol { return Symbol{name, meaning, "bits", n, 8, 64, 8} }

// mixedBits lists the symbols of mixed precision.
func mixedBits() []Symbol {
	return []Symbol{
		bits("Sp", "bits of a parameter", 16), bits("Sg", "bits of a gradient", 16), bits("So", "bits of an optimizer variable", 32),
	}
}

func tensor(name, meaning string, n int64) Symbol {
	return Symbol{name, meaning, "bytes", n, 1, 1e9, 1}
}

func step(text, formula, unit string) Step { return Step{Step: text, Formula: formula, Unit: unit} }

// check refuses what cannot be simulated.
func (s Symbol) check(value int64) error {
	switch {
	case value < s.least || value > s.most:
		return fmt.Errorf("%s must be %s to %s %s", s.Name, number(s.least), number(s.most), s.Unit)
	case value%s.step != 0:
		return fmt.Errorf("%s must be a multiple of %s", s.Name, units.Plural(int(s.step), "bit"))
	}
	return nil
}

// are says that there are so many: "4 microbatches are".
func are(n int64, word string) string {
	if n == 1 {
		return "1 " + word + " is"
	}
	return units.Plural(int(n), word) + " are"
}
