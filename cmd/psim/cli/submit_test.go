package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every wrong flag of a submission is one clear error, and nothing is written.
func TestSubmitErrors(t *testing.T) {
	userFolder(t)
	t.Setenv("PATH", t.TempDir())
	const search = "psim search gpipe --devices 8 --submit slurm --out sub "
	const sweep = "psim sweep gpipe --vary parallel.data=1,2 --submit slurm --out sub "
	large := func(batches, microbatches int) (flags string) {
		for key, most := range map[string]int{"batch.global": batches, "schedule.microbatches": microbatches} {
			flags += " --vary " + key + "="
			for n := range most {
				flags += fmt.Sprint(n+1, ",")
			}
			flags = strings.TrimSuffix(flags, ",")
		}
		return flags
	}
	for line, want := range map[string]string{
		"psim search gpipe --devices 8 --submit pbs --out sub":      `--submit "pbs": must be slurm`,
		"psim search gpipe --devices 8 --submit= --out sub":         `--submit "": must be slurm`,
		"psim search gpipe --submit slurm --out sub":                "--submit: needs --devices",
		"psim search gpipe --devices 8,16 --submit slurm --out sub": "--submit: needs one number of --devices",
		"psim search gpipe --devices 8 --submit slurm":              "--out is missing: --submit needs a folder",
		"psim search gpipe --devices 8 --submit slurm --out -":      "--out is missing",
		"psim search gpipe --devices 8 --dry-run":                   "--dry-run: needs --submit slurm",
		"psim search gpipe --devices 8 --shards 4":                  "--shards: needs --submit slurm",
		"psim sweep gpipe --vary parallel.data=1,2 --partition p":   "--partition: needs --submit slurm",
		"psim sweep gpipe --vary parallel.data=1,2 --time 10":       "--time: needs --submit slurm",
		search + "--shards 0":                                       "--shards 0: must be from 1 to 10000",
		search + "--shards x":                                       "--shards x: must be a whole number",
		search + "--partition=a;b":                                  `--partition "a;b": must be a name`,
		search + "--partition=":                                     `--partition "": must be a name`,
		search + "--time soon":                                      `--time "soon": must be MINUTES`,
		search + "--shard 1/4":                                      "--shard: --submit numbers the shards itself",
		search + "--json":                                           "--json and --csv: the job that merges prints the answer",
		search + "--fix nothing.here":                               "--fix nothing.here: is not a key",
		search + "--vary parallel.tensor=x":                         "--vary parallel.tensor=x",
		search:                                                      "--submit slurm: there is no sbatch on the PATH; give the command where Slurm is, or print its scripts with --dry-run",
		sweep + "--vary parallel.data=1,2":                          "--vary parallel.data is given twice",
		sweep + "--shards 1" + large(200, 100):                      "= 40000 points are more than the 20000 of a sweep",
		sweep + "--shards 2" + large(300, 100):                      "are more than the 20000 of each of 2 shards; vary less, or take more shards",
		sweep + "--shards 10000" + large(1000, 600):                 "are more than the 1000000 of a sweep",
		sweep:                                  "--submit slurm: there is no sbatch on the PATH",
		"psim status sub":                      "sub: holds nothing that was submitted with --submit slurm",
		"psim status":                          "status takes the folder of --out, not nothing",
		"psim status sub --merge 0":            "--merge 0: must be at least 1",
		"psim status sub --json --resubmit":    "--json, --resubmit and --merge: give one of them",
		"psim status sub --merge 1 --resubmit": "--json, --resubmit and --merge: give one of them",
	} {
		stdout, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code, "%.100s: %s", line, stderr)
		require.True(t, strings.Contains(stderr, want), "%s: %.300s", want, stderr)
		require.Empty(t, stdout)
		require.NoDirExists(t, "sub")
	}
}

// A dry run prints the scripts, in which names with blanks are whole, and writes nothing.
func TestSubmitDryRun(t *testing.T) {
	userFolder(t)
	t.Setenv("PATH", t.TempDir())
	stdout, stderr, code := psim(t, "psim search my.toml --devices 8 --vary batch.micro=1,2 --vary train.precision=bf16,fp16 "+
		"--schedules ddp,1f1b --map tensor,stages --settings all --overwrite --submit slurm --dry-run --shards 4 --partition p --out sub")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "\"$psim\" search my.toml --devices=8 --map=tensor --map=stages --schedules=ddp --schedules=1f1b "+
		"--vary=batch.micro=1,2 --vary=train.precision=bf16,fp16 \\\n\t--shard \"$shard/4\" --out \"$folder/parts\" &\n")
	require.Contains(t, stdout, `merge "$folder/parts" --out "$folder" --map=tensor --map=stages --overwrite=true --settings=all --quiet`)
	require.Contains(t, stdout, "#SBATCH --partition=p\n")
	require.NoDirExists(t, "sub")
	require.NoError(t, os.Mkdir("it's here", 0o755))
	t.Chdir("it's here")
	stdout, stderr, code = psim(t, "psim sweep gpipe --vary parallel.data=1,2 --submit slurm --dry-run --out sub")
	require.Zero(t, code, stderr)
	here, err := filepath.Abs("")
	require.NoError(t, err)
	require.Contains(t, stdout, "cd '"+strings.ReplaceAll(here, "'", `'\''`)+"' || end 1\n")
	require.Contains(t, stdout, "--array=0-15")
}

// A shard without a plan among the best of all has done its part.
func TestShardBehindOthers(t *testing.T) {
	userFolder(t)
	for _, shard := range []string{"1", "2", "3"} {
		stdout, stderr, code := psim(t, fewPlans+" --rows 1 --out parts --quiet --shard "+shard+"/3")
		require.Zero(t, code, stderr)
		if strings.Contains(stdout, "no plan of this shard is as fast as those of other shards") {
			return
		}
	}
	t.Error("every shard has found a plan as good as those before")
}
