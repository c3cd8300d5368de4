// Package nearest finds the word that a mistyped word was meant to be.
package nearest

import (
	"slices"
	"strings"
)

// Word returns the candidate with the least edit distance from a word, and
// whether it is near enough to be suggested: at most a third of the letters
// differ, and at least one may. A candidate that begins with the word (of
// three letters or more) is nearer than any other.
func Word(word string, candidates []string) (string, bool) {
	word = strings.ToLower(word)
	for _, c := range candidates {
		if len(word) >= 3 && strings.HasPrefix(c, word) && c != word {
			return c, true
		}
	}
	best, least := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := distance(word, c); d < least {
			best, least = c, d
		}
	}
	return best, best != ""
}

// Suggest returns "; did you mean X?", or nothing.
func Suggest(word string, candidates []string) string {
	if best, ok := Word(word, candidates); ok {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Kin returns the candidates whose beginnings share the most letters and digits with that of a word, if
// these are at least three.
func Kin(word string, candidates []string) (kin []string) {
	most := 3
	for _, c := range candidates {
		n := shared(plain(word), plain(c))
		if n > most {
			most, kin = n, nil
		}
		if n == most && !slices.Contains(kin, c) {
			kin = append(kin, c)
		}
	}
	return kin
}

// plain keeps the letters and digits of a word, in lower case.
func plain(word string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(word))
}

// shared counts the letters with which both words begin.
func shared(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance counts the insertions, deletions and replacements that turn a into
// b, a swap of neighbours counting once (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
