package published

import (
	"fmt"
	"slices"

	"psim/configs/catalog"
	"psim/internal/units"
)

// Standing says on how many rows, of how many sites, a constant of a stack stands on a chip, by make fit. It returns
// "" for keys that are not fitted to published runs. A constant of one site may be that site's alone.
func Standing(stack, chip, key string) string {
	var file struct {
		Fits []stackFit `toml:"fits"`
	}
	if err := catalog.Decode(read("testdata/stack_fits.toml"), &file); err != nil {
		panic(err) // part of the program; a test reads it
	}
	for _, f := range file.Fits {
		everywhere := chip == "" && slices.Contains(f.Keys, key) // no chip has a value of its own
		if f.Stack != stack || !everywhere && f.Chip != chip && !slices.Contains(f.Also, chip) {
			continue
		}
		for _, r := range records("stack_constants.csv") {
			if r.text("stack") != stack || r.text("chip") != f.Chip || r.text("key") != key {
				continue
			}
			rows := units.Plural(r.count("rows"), "row")
			if sites := r.count("sites"); sites > 1 {
				return fmt.Sprintf("%s of %d sites", rows, sites)
			}
			return rows + ", one site"
		}
	}
	return ""
}
