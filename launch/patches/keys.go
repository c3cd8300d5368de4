package patches

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plainInFlow and plainInBlock match a scalar without quotes, in brackets and outside of them.
var (
	plainInFlow  = regexp.MustCompile(`^[^,}\]\n]*`)
	plainInBlock = regexp.MustCompile(`^(?:[^#\n]|[^\s#]#)*`)
	quotedScalar = regexp.MustCompile(`^(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*')`)
)

// Keyed returns files in which a key of one of them, in JSON or YAML, has another value. Sections are parted by dots. A
// key that is not there is put in, if it may be. There is none where the key has no such place.
func (e *Editor) Keyed(file int, key string, value any, put bool) []Edited {
	section, known := rootOf(e.Files[file].Bytes())
	names := strings.Split(key, ".")
	for known {
		at, inner := valueIn(section, names[0])
		switch {
		case at != nil && len(names) == 1 && inner.Kind == yaml.ScalarNode:
			return kept(e.another(file, section, inner, value), file, key, value)
		case at != nil && len(names) > 1 && inner.Kind == yaml.MappingNode:
			section, names = inner, names[1:]
			continue
		case at == nil && put && len(section.Content) > 0:
			return kept(e.put(file, section, names, value), file, key, value)
		}
		break
	}
	return nil
}

// kept returns files if a key of one of them now has a value: it may go on where the change ends.
func kept(files []Edited, file int, key string, value any) []Edited {
	if files == nil {
		return nil
	}
	if is, given := files[file].Value(key); !given || is != fmt.Sprint(value) {
		return nil
	}
	return files
}

// Value returns the scalar that a key of a file in JSON or YAML has.
func (f Edited) Value(key string) (value string, given bool) {
	section, known := rootOf(f.Bytes())
	for name := range strings.SplitSeq(key, ".") {
		if !known || section.Kind != yaml.MappingNode {
			return "", false
		}
		_, section = valueIn(section, name)
		known = section != nil
	}
	if !known || section.Kind != yaml.ScalarNode {
		return "", false
	}
	return section.Value, true
}

// rootOf returns the object of a file in JSON or YAML.
func rootOf(data []byte) (root *yaml.Node, known bool) {
	var document yaml.Node
	otherEnds := bytes.ContainsAny(bytes.ReplaceAll(data, []byte("\r\n"), nil), "\r\u0085\u2028\u2029")
	if otherEnds || bytes.HasPrefix(data, []byte("\ufeff")) { // which would have to stay first
		return nil, false
	}
	if yaml.Unmarshal(data, &document) != nil || len(document.Content) != 1 ||
		document.Content[0].Kind != yaml.MappingNode {
		return nil, false
	}
	return document.Content[0], true
}

// valueIn returns the last key of that name in a section, and what it has; nil if there is none.
func valueIn(section *yaml.Node, name string) (at, value *yaml.Node) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		if section.Content[i].Value == name {
			at, value = section.Content[i], section.Content[i+1]
		}
	}
	return at, value
}

// another returns files in which a scalar is another one, written as the old one was.
func (e *Editor) another(file int, section, old *yaml.Node, value any) []Edited {
	line, piece, at := e.place(file, old)
	if line < 0 {
		return nil
	}
	list := pieces(e.Files[file].lines[line])
	rest := list[piece][at:]
	plain := plainInBlock
	if section.Style&yaml.FlowStyle != 0 {
		plain = plainInFlow
	}
	text := fmt.Sprint(value)
	word := quotedScalar.FindString(rest)
	switch _, isWord := value.(string); {
	case word == "":
		word = strings.TrimRight(plain.FindString(rest), " \t\r\n")
		if isWord && e.isJSON(file) || text == "" {
			text = strconv.Quote(text)
		}
	case isWord:
		text = word[:1] + text + word[:1]
	}
	list[piece] = list[piece][:at] + text + rest[len(word):]
	return e.replaced(file, line, strings.Join(list, ""))
}

// put returns files in which a section begins with a key, in sections of its own where these are not there.
func (e *Editor) put(file int, section *yaml.Node, names []string, value any) []Edited {
	line, piece, at := e.place(file, section.Content[0])
	if line < 0 {
		return nil
	}
	list := pieces(e.Files[file].lines[line])
	before, rest := list[piece][:at], list[piece][at:]
	text := fmt.Sprint(value)
	if word, ok := value.(string); ok && (e.isJSON(file) || strings.ContainsAny(word, " :#")) {
		text = strconv.Quote(word)
	}
	flow := section.Style&yaml.FlowStyle != 0
	for i := len(names) - 1; i >= 0; i-- {
		name := names[i]
		if e.isJSON(file) {
			name = strconv.Quote(name)
		}
		switch last := i == len(names)-1; {
		case flow && last:
			text = name + ": " + text
		case flow:
			text = name + ": {" + text + "}"
		case last:
			text = strings.Repeat("  ", i) + name + ": " + text + "\n"
		default:
			text = strings.Repeat("  ", i) + name + ":\n" + text
		}
	}
	switch indent := strings.TrimSpace(before) == ""; {
	case !flow && !indent:
		return nil // within a list
	case flow && indent: // on a line of its own, as the key that it comes before
		list[piece] = before + text + ",\n" + before + rest
	case flow:
		list[piece] = before + text + ", " + rest
	default:
		var b bytes.Buffer
		for _, line := range pieces(text) {
			b.WriteString(before + line)
		}
		list[piece] = b.String() + before + rest
	}
	return e.replaced(file, line, strings.Join(list, ""))
}

// isJSON reports whether a file is written in JSON.
func (e *Editor) isJSON(file int) bool {
	return bytes.HasPrefix(bytes.TrimSpace(e.Files[file].Bytes()), []byte("{"))
}

// place returns where a node begins: the line that was, the one of those that stand for it now, and the byte in it;
// a line of -1 if it is nowhere.
func (e *Editor) place(file int, n *yaml.Node) (line, piece, at int) {
	left := n.Line - 1
	for line, text := range e.Files[file].lines {
		list := pieces(text)
		if left >= len(list) {
			left -= len(list)
			continue
		}
		runes := []rune(list[left])
		if n.Column < 1 || n.Column > len(runes) {
			return -1, 0, 0
		}
		return line, left, len(string(runes[:n.Column-1]))
	}
	return -1, 0, 0
}
