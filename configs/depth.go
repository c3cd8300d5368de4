package configs

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds how deeply a text nests brackets, braces and dotted keys. What
// the decoder takes grows with the square of it: a megabyte of brackets would
// take gigabytes.
const maxDepth = 100

// checkDepth refuses a text that nests too deeply, wherever its lines end. Strings
// and comments do not nest.
func checkDepth(label, text string) *Error {
	line, start, depth, dots := 1, 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			line, start, dots = line+1, i+1, 0
		case '#':
			i = endOfLine(text, i) - 1
		case '"', '\'':
			end := endOfString(text, i)
			for ; i < end-1; i++ {
				if text[i] == '\n' {
					line, start = line+1, i+1
				}
			}
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(0, depth-1), 0
		case ',', '=':
			dots = 0
		case '.':
			dots++
		}
		if depth+dots > maxDepth {
			return &Error{Label: label, Line: line, Col: utf8.RuneCountInString(text[start:i]) + 1,
				Problem: fmt.Sprintf("brackets, braces or dotted keys nest more than %d levels deep; no setting nests so deeply", maxDepth)}
		}
	}
	return nil
}

// endOfLine finds where the line of position i ends.
func endOfLine(text string, i int) int {
	for i < len(text) && text[i] != '\n' {
		i++
	}
	return i
}

// endOfString finds the position after the string that begins at i: in one quote or
// three, with escapes if they are double. A string in one quote that is not closed
// ends with its line, where the decoder will complain.
func endOfString(text string, i int) int {
	quote, size := text[i], 1
	if len(text) >= i+3 && text[i+1] == quote && text[i+2] == quote {
		size = 3
	}
	for i += size; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == '\n' && size == 1:
			return i
		case text[i] == quote && size == 1:
			return i + 1
		case len(text) >= i+3 && text[i] == quote && text[i+1] == quote && text[i+2] == quote && size == 3:
			for i += 3; i < len(text) && text[i] == quote; i++ { // two more are its last characters
			}
			return i
		}
	}
	return len(text)
}
