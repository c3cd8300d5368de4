// Package liberationserifbolditalic has a small font in place of its own.
package liberationserifbolditalic

import "golang.org/x/image/font/gofont/goregular"

// TTF is Go Regular.
var TTF = goregular.TTF
