//go:build !(xla && cgo)

package programs

import "errors"

// XLACompiled says whether this program can use XLA.
const XLACompiled = false

var errNoXLA = errors.New("this psim is built without XLA: build one with\n  CGO_ENABLED=1 go build -tags xla ./cmd/psim\nwhich needs a C compiler")

// OpenXLA opens the devices of a plugin; here it fails and says how to build a
// program where it does not.
func OpenXLA(Plugin, ClientOptions) ([]*Device, error) { return nil, errNoXLA }

// PluginVersion is the version of PJRT that a plugin speaks; here it fails.
func PluginVersion(Plugin) (string, error) { return "", errNoXLA }
