package logged

import (
	"bytes"
	"regexp"
	"strings"

	"psim/launch/understood"
)

// object returns the object that a program prints after a word, the last one, in JSON or as Python shows one, as JSON.
// What a launcher writes before every line is taken off. nil if there is none.
func object(data []byte, word string) []byte {
	at := bytes.LastIndex(data, []byte(word+"{"))
	if at < 0 {
		return nil
	}
	line := data[bytes.LastIndexByte(data[:at], '\n')+1:]
	text := data[at+len(word) : min(len(data), at+len(word)+understood.MostScript)]
	if rank := rankPrefix.Find(line); rank != nil {
		text = linesOf(text, rank)
	} else if _, next, ok := bytes.Cut(line, []byte("\n")); ok {
		if n := alike(line, next); n > 0 {
			text = bytes.ReplaceAll(text, append([]byte("\n"), line[:n]...), []byte("\n"))
		}
	}
	return inJSON(colors.ReplaceAll(text, nil))
}

// rankPrefix is what torchrun writes before every line of a rank.
var rankPrefix = regexp.MustCompile(`^\[(?:rank|default)\d+\]:`)

// linesOf returns the first line, and those after it that a rank printed, without its prefix.
func linesOf(text, rank []byte) []byte {
	var b bytes.Buffer
	first := true
	for line := range bytes.Lines(text) {
		own, of := bytes.CutPrefix(line, rank)
		if first || of {
			b.Write(own)
		}
		first = false
	}
	return b.Bytes()
}

// alike counts the bytes with which both texts begin.
func alike(a, b []byte) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] && a[n] != '\n' {
		n++
	}
	return n
}

// pythonWords are what Python calls the values of JSON.
var pythonWords = map[string]string{"True": "true", "False": "false", "None": "null"}

// inJSON returns the object that a text begins with; nil if it does not end. Python writes strings with single quotes,
// and lists also with parentheses.
func inJSON(text []byte) []byte {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"' || c == '\'':
			end := closing(text, i)
			if end < 0 {
				return nil
			}
			b.WriteString(quoted(text[i+1:end], c))
			i = end
			continue
		case c >= 'A' && c <= 'Z':
			end := i
			for end < len(text) && (text[end] >= 'a' && text[end] <= 'z' || text[end] >= 'A' && text[end] <= 'Z') {
				end++
			}
			if word, ok := pythonWords[string(text[i:end])]; ok {
				b.WriteString(word)
				i = end - 1
				continue
			}
		case c == '(':
			c = '['
		case c == ')':
			c = ']'
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
		b.WriteByte(c)
		if depth == 0 {
			return []byte(b.String())
		}
	}
	return nil
}

// closing returns where a string ends that begins at a place; -1 if it does not.
func closing(text []byte, at int) int {
	for i := at + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[at]:
			return i
		}
	}
	return -1
}

// quoted writes a string, which is given without its quotes, as one of JSON.
func quoted(inner []byte, quote byte) string {
	text := string(inner)
	if quote == '\'' {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `\'`, `'`), `"`, `\"`)
	}
	return `"` + text + `"`
}
