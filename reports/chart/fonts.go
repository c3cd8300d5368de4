package chart

import (
	"sync"

	"github.com/go-fonts/liberation/liberationsansbold"
	"github.com/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	plotfont "gonum.org/v1/plot/font"
)

// readFonts gives gonum's plots the fonts of pictures. They would read twelve at every start
// of psim, whether it draws or not: module liberation beside this file has their names and a
// small font, and so these come from where the fonts were before.
var readFonts = sync.OnceFunc(func() {
	var fonts plotfont.Collection
	for weight, data := range map[font.Weight][]byte{font.WeightNormal: liberationsansregular.TTF, font.WeightBold: liberationsansbold.TTF} {
		face, err := opentype.Parse(data)
		if err != nil {
			panic(err) // a font that is part of this program
		}
		fonts = append(fonts, plotfont.Face{Font: plotfont.Font{Typeface: "Liberation", Variant: "Sans", Weight: weight}, Face: face})
	}
	plotfont.DefaultCache.Add(fonts)
})
