package session

import (
	"fmt"
	"io"

	"psim/exec/pth"
	"psim/internal/files"
)

// Gradients lists the files of the first step's gradients of all runs: for every rank one
// that torch.load reads, a dictionary by name.
// Several runs have a folder each.
func (s *Session) Gradients() (list []files.File) {
	for _, r := range s.Runs {
		folder := ""
		if len(s.Runs) > 1 {
			folder = r.Plan.Graph.Name + "/"
		}
		for rank, held := range r.gradients {
			name := GradientName(rank)
			var tensors []pth.Tensor
			for _, t := range held.Tensors {
				tensors = append(tensors, pth.Tensor{Name: t.Name, Shape: t.Shape, Values: held.Values[t.Name]})
			}
			list = append(list, files.File{Path: folder + name + ".pth", Render: func(w io.Writer) error {
				return pth.Write(w, name, tensors)
			}})
		}
	}
	return list
}

// GradientName names the file of a rank's gradients, without its extension.
func GradientName(rank int) string { return fmt.Sprintf("model%d_gradients", rank) }
