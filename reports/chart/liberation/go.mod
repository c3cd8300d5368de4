// This module takes the place of the fonts that gonum's plots read at every start, drawn
// or not. Package chart adds those of pictures when it draws the first.
module codeberg.org/go-fonts/liberation

go 1.26

require golang.org/x/image v0.30.0
