//go:build !(xla && cgo)

package backend

import (
	"errors"

	"github.com/gomlx/compute"
)

// XLACompiled says whether this program can use XLA.
const XLACompiled = false

var errNoXLA = errors.New("this psim is built without XLA: build one with\n" +
	"  CGO_ENABLED=1 go build -tags xla ./cmd/psim\nwhich needs a C compiler")

// OpenXLA opens the devices of a plugin. Without XLA it fails, and says how to build psim with
// it.
func OpenXLA(Plugin, ClientOptions) ([]*LocalDevice, error) { return nil, errNoXLA }

// Inspect loads a plugin and says what it is. Without XLA it fails.
func (p Plugin) Inspect() (PluginInfo, error) { return PluginInfo{}, errNoXLA }

// compileSharing compiles. The Go backend finds out by itself whose memory a result can take.
func compileSharing(_ compute.Backend, _ []int32, compile func() error) (ProgramSizes, error) {
	return ProgramSizes{}, compile()
}
