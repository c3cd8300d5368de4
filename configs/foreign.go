package configs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// foreign says of a text that is no TOML what it is, and what takes it; "" of others.
func foreign(data []byte) string {
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return "is text in UTF-16; save it as UTF-8"
		}
	}
	if !json.Valid(data) || bytes.TrimSpace(data)[0] != '{' {
		return ""
	}
	var object struct {
		Kind string `json:"kind"`
		Type string `json:"model_type"`
	}
	switch json.Unmarshal(data, &object); { // an object of other types has neither
	case object.Kind == "predicted" || object.Kind == "measured":
		return "is a result, which psim compare and psim plot take; name the configuration that it was made from, a .toml file or an example"
	case object.Type != "":
		return "is a network's config.json; write a .toml file with file = \"config.json\" in [model], and name that"
	}
	return "is JSON; a configuration is TOML, such as psim show gpipe prints"
}

// folderProblem says why a folder is no configuration.
func folderProblem(path string) string {
	if _, err := os.Stat(filepath.Join(path, "result.json")); err == nil {
		return "is a folder of results, which psim compare and psim plot take; name the configuration that they were made from, a .toml file or an example"
	}
	return "is a directory; name a .toml file in it"
}
