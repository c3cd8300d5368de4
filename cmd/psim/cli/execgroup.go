package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"psim/exec/cluster"
)

// groupFlags say where a process meets the others, if each is started by itself.
type groupFlags struct {
	cluster.Rendezvous
	tokenFile string
}

// groupNames lists the flags that belong together.
var groupNames = []string{"rank", "world-size", "master"}

func (g *groupFlags) register(flags *pflag.FlagSet) {
	flags.IntVar(&g.Rank, "rank", 0,
		"number of this process, from 0, if each is started by itself, with --world-size and --master "+
			"(default: RANK, if all of torchrun's variables are set)")
	flags.IntVar(&g.Size, "world-size", 0,
		"number of processes to divide the devices among (default: WORLD_SIZE)")
	flags.StringVar(&g.Master, "master", "",
		"HOST:PORT where rank 0 listens; the others wait for it, all for --stall at most "+
			"(default: MASTER_ADDR and MASTER_PORT)")
	flags.Var((*pathValue)(&g.tokenFile), "token-file",
		"file with a secret that all processes of the run share, needed unless --master is a loopback address "+
			"(default: PSIM_TOKEN)")
}

// find returns where this process meets the others: what the flags say, or unless a launcher has
// started it, or it starts copies itself, what torchrun's variables say; nil if nothing does.
func (g *groupFlags) find(flags *pflag.FlagSet, getenv func(string) string) (place *cluster.Rendezvous, err error) {
	var given, missing []string
	for _, name := range groupNames {
		if flags.Changed(name) {
			given = append(given, "--"+name)
		} else {
			missing = append(missing, "--"+name)
		}
	}
	switch {
	case len(given) > 0 && flags.Changed("processes"):
		return nil, fmt.Errorf("--processes and %s cannot be combined: "+
			"psim starts copies, or every process is started by itself", given[0])
	case len(given) > 0 && len(missing) > 0:
		return nil, fmt.Errorf("%s: needs %s as well", strings.Join(given, " and "), strings.Join(missing, " and "))
	}
	token, err := g.token()
	if err != nil {
		return nil, err
	}
	switch {
	case len(given) > 0:
		g.Token, g.From = token, cluster.FlagNames
		place, err = &g.Rendezvous, g.Complete(getenv)
	case !flags.Changed("processes") && cluster.Launched(getenv).Size == 0:
		place, err = cluster.RendezvousOf(getenv, token)
	}
	if err == nil && place == nil && g.tokenFile != "" {
		err = errors.New("--token-file: there are no processes to share it with: " +
			"give --rank, --world-size and --master, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT")
	}
	return place, err
}

// token reads the token file, if there is one.
func (g *groupFlags) token() (string, error) {
	if g.tokenFile == "" {
		return "", nil
	}
	token, err := cluster.ReadToken(g.tokenFile)
	if err != nil {
		err = fmt.Errorf("--token-file %s: %w", g.tokenFile, err)
	}
	return token, err
}

// waiting returns a function that prints what this process waits for before the run.
func (f *execFlags) waiting(stderr io.Writer) func(string) {
	if f.quiet {
		return nil
	}
	return func(what string) { fmt.Fprintln(stderr, "psim:", visible(what)) }
}

// isFirst reports whether this process prints and writes for all.
func (f *execFlags) isFirst() bool {
	if f.place != nil {
		return f.place.Rank == 0
	}
	return cluster.First()
}
