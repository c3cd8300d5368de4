// Package liberationmonoitalic has a small font in place of its own.
package liberationmonoitalic

import "golang.org/x/image/font/gofont/goregular"

// TTF is Go Regular.
var TTF = goregular.TTF
