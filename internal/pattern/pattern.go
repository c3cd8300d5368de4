// Package pattern compiles regular expressions when they are first used, so that a start
// of psim does not pay for those of all commands.
package pattern

import (
	"regexp"
	"sync"
)

// New returns what compiles an expression once. It panics then if the expression is wrong.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
