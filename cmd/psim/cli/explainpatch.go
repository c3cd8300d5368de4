package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	lib "psim"
	"psim/advise"
	"psim/configs"
	"psim/export"
	"psim/internal/files"
	"psim/launch"
	"psim/results/judged"
)

// emitFormats are what the better plan is written as.
var emitFormats = []string{"megatron", "accelerate", "deepspeed"}

// checkPatch refuses, before any plan is looked for, a format that is not of the files, and a patch of several files
// that cannot be written.
func (f *explainFlags) checkPatch() error {
	trainer := f.program == "trainer"
	switch {
	case f.emit == "":
		return nil
	case trainer && f.emit == "megatron", f.program == "deepspeed" && f.emit != "deepspeed",
		f.program == "megatron" && f.emit != "megatron":
		return fmt.Errorf("--emit %s: %s is not of that program; --emit %s writes it", f.emit, f.inputs[0].Label,
			map[string]string{"trainer": "accelerate", "deepspeed": "deepspeed", "megatron": "megatron"}[f.program])
	case !trainer && f.emit == "accelerate":
		return errors.New("--emit accelerate: changes files of transformers' Trainer, and none is named; psim export " +
			"accelerate writes them from a CONFIG")
	case slices.ContainsFunc(f.inputs, func(i launch.Input) bool { return files.Same(i.Label, f.out) }):
		return fmt.Errorf("--out %s: is one of the inputs; name another file", f.out)
	case f.out == "-" || len(launch.WithoutLogs(f.inputs)) < 2:
		return nil
	}
	if err := patchable(f.inputs); err != nil {
		return err
	}
	patch := f.emitted()
	if !strings.HasSuffix(patch.path, patchEnding) {
		patch.path += patchEnding
	}
	return patch.check()
}

// patchEnding is that of the file to which a patch of several files goes.
const patchEnding = ".patch"

// export writes the better plan in the format of --emit, where no file of the user's has been changed.
func (f *explainFlags) export(ctx context.Context, w io.Writer, c *configs.Config, unpatched string) (err error) {
	switch f.emit {
	case "megatron":
		_, err = export.WriteMegatron(ctx, w, c)
	case "deepspeed":
		if f.program != "trainer" {
			_, err = export.WriteDeepSpeed(ctx, w, c)
			break
		}
		fallthrough
	default:
		err = failed(fmt.Errorf("--emit %s: the files are not changed: %s", f.emit, unpatched))
	}
	return err
}

// patchable refuses files that patch(1) does not change.
func patchable(list []launch.Input) error {
	for _, i := range launch.WithoutLogs(list) {
		at, err := os.Lstat(i.Label)
		switch {
		case !filepath.IsLocal(i.Label):
			return fmt.Errorf("--emit: %s: patch(1) changes only files of the folder that it runs in; run psim there",
				visible(i.Label))
		case strings.ContainsAny(i.Label, "\t\n\r\""):
			return fmt.Errorf("--emit: %s: patch(1) does not read such a name; rename the file", visible(i.Label))
		case err == nil && at.Mode()&os.ModeSymlink != 0:
			return fmt.Errorf("--emit: %s: is a symbolic link, which patch(1) does not change; name the file itself",
				visible(i.Label))
		}
	}
	return nil
}

// cutAsBefore finds the fastest of plans that are cut as the script cuts, where err says that the script cannot say how
// the fastest of all is cut; nil otherwise.
func (f *explainFlags) cutAsBefore(
	ctx context.Context, p *lib.Prediction, held *judged.Judgment, err error,
) *configs.Config {
	const cut = "schedule.partition"
	var unsayable *configs.Error
	if !errors.As(err, &unsayable) || unsayable.Key != cut {
		return nil
	}
	only := map[string][]string{cut: nil}
	maps.Copy(only, f.only)
	c, failed := advise.Better(ctx, p, held, only)
	if failed != nil {
		return nil
	}
	return c
}

// patch changes the user's files, if there are some, so that they start the second plan.
func (f *explainFlags) patch(ctx context.Context, plans [2]*configs.Config) (*launch.Patch, error) {
	switch f.program {
	case "megatron":
		return export.PatchMegatron(ctx, plans, f.inputs, f.options())
	case "trainer", "deepspeed":
		return export.PatchTrainer(ctx, plans, f.inputs, f.options())
	}
	return nil, launch.ErrNoScript
}
