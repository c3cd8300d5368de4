// Package chart gives gonum's plots one look: a font, sizes, colours, axes in
// units that people read, and a legend below the data, which it never covers.
// A Figure takes any plot.Plotter and is written as PNG or SVG.
//
// It knows nothing of traces or results. Those who draw them, in reports, say
// what is where; this package says how it looks, and how it becomes a file.
// Equal figures give equal bytes.
package chart
