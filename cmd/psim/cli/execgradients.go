package cli

import (
	"context"
	"io"

	"psim/configs"
	"psim/exec/session"
	"psim/internal/files"
)

// gradientFolder returns the folder of --save-gradients; its path is empty without the flag.
func (f *execFlags) gradientFolder(list []*configs.Config) (files.Folder, error) {
	folder := f.to(files.Folder{Path: f.gradients, Owner: "exec --save-gradients"})
	for _, c := range list {
		for rank := range max(1, c.Schedule.Stages) * max(1, c.Parallel.Data) {
			name := session.GradientName(rank) + ".pth"
			if len(list) > 1 {
				name = c.Schedule.Name + "/" + name
			}
			folder.Guarded = append(folder.Guarded, name)
		}
	}
	if folder.Path == "" {
		return folder, nil
	}
	return folder, usageError("save-gradients", folder.Check())
}

// saveGradients writes the gradients of a session if --save-gradients is given.
func (f *execFlags) saveGradients(
	ctx context.Context, s *session.Session, folder files.Folder, stderr io.Writer,
) error {
	list := s.Gradients()
	if folder.Path == "" || len(list) == 0 {
		return nil
	}
	if err := folder.Write(context.WithoutCancel(ctx), list); err != nil {
		return failure{err}
	}
	f.reportWritten(stderr, "the gradients of the first step, a file for every rank,", folder.Path)
	return nil
}
