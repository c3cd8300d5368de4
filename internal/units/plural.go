package units

import (
	"strconv"
	"strings"
)

// Plural prints a number of things: "1 device", "2 devices", "3 microbatches".
func Plural(n int, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "ch"):
		word += "es"
	default:
		word += "s"
	}
	return strconv.Itoa(n) + " " + word
}
