package cli

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psim/configs"
	"psim/internal/files"
	"psim/internal/nearest"
	"psim/internal/setting"
)

// outputFlags holds what most commands have: settings over a configuration,
// and in which form results are printed and saved.
type outputFlags struct {
	sets      []string
	json, csv bool
	out       string
	quiet     bool
	verbose   bool
}

// registerInput declares what a command has that runs a configuration.
func (f *outputFlags) registerInput(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting: KEY=VALUE with a dotted key; may be repeated")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
}

// hasSet reports whether --set gives a setting.
func (f *outputFlags) hasSet(key string) bool {
	return slices.ContainsFunc(f.sets, func(set string) bool {
		changed, _, _ := strings.Cut(set, "=")
		return strings.TrimSpace(changed) == key
	})
}

// registerVerbose declares what a command has that says what it reads and decides.
func (f *outputFlags) registerVerbose(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say on stderr what is read, assumed and decided")
}

// note says something, a line each, if --verbose is given.
func (f *outputFlags) note(stderr io.Writer, lines func() []string) {
	if f.verbose {
		for _, line := range lines() {
			fmt.Fprintln(stderr, visible(line))
		}
	}
}

// registerOutput declares the forms of output by their help, "" for those that a
// command does not have.
func (f *outputFlags) registerOutput(flags *pflag.FlagSet, json, csv, out string) {
	flags.BoolVar(&f.json, "json", false, json)
	if csv != "" {
		flags.BoolVar(&f.csv, "csv", false, csv)
	}
	flags.Var((*named)(&f.out), "out", out)
}

// named holds the value of a flag that names a file or a folder.
type named string

// Set refuses an empty name.
func (n *named) Set(text string) error {
	if text == "" {
		return errors.New("is empty")
	}
	*n = named(text)
	return nil
}

// Type is what stands for the name in help.
func (n *named) Type() string { return "string" }

// String returns the name.
func (n *named) String() string { return string(*n) }

// exclusive refuses two forms of output at once.
func (f *outputFlags) exclusive() error {
	if f.json && f.csv {
		return errors.New("--json and --csv cannot be combined; stdout holds one of them")
	}
	return nil
}

// noDash takes --out - as no folder, as run and exec do.
func (f *outputFlags) noDash() {
	if f.out == "-" {
		f.out = ""
	}
}

// checkOut refuses a folder that cannot be written to before anything is computed.
func (f *outputFlags) checkOut(folder files.Folder) error {
	if folder.Path == "" {
		return nil
	}
	return refused("out", folder.Check())
}

// wrote says which files are where.
func (f *outputFlags) wrote(stderr io.Writer, names, folder string) {
	if !f.quiet {
		fmt.Fprintf(stderr, "wrote %s in %s\n", names, strings.ReplaceAll(visible(folder), "\n", `\n`))
	}
}

func completeExamples(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return slices.Concat(configs.Examples(), configs.Plans()), cobra.ShellCompDirectiveDefault
}

// flagged names the flag that an error is about.
func flagged(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s %w", flag, err)
}

// refused does likewise before any work, where whatever is wrong is the flag's.
func refused(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s %s", flag, err)
}

// wanted says what the value of a flag must be, by the flag's type.
var wanted = map[string]string{
	"int":      "must be a whole number of at most 18 digits",
	"uint64":   "must be a whole number from 0 to 18446744073709551615",
	"float64":  "must be a number, such as 1e-3",
	"bool":     "must be true or false",
	"duration": "must be a time with its unit, such as 30s or 10m",
	"intSlice": "must be whole numbers, such as 1,2,4",
}

// badFlag says in psim's words what is wrong with a flag, and where to look.
func badFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		if must, ok := wanted[flag.Value.Type()]; ok {
			err = fmt.Errorf("--%s %s: %s", flag.Name, invalid.GetValue(), must)
		} else if _, ok := flag.Value.(*named); ok {
			err = fmt.Errorf("--%s: must not be empty; name a path, or leave the flag out", flag.Name)
		}
	}
	var bare *pflag.ValueRequiredError
	if errors.As(err, &bare) && bare.GetSpecifiedShortnames() == "" {
		err = fmt.Errorf("--%s needs a value", bare.GetSpecifiedName())
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := unknown.GetSpecifiedName()
		err = fmt.Errorf("unknown flag --%s", name)
		if keys := keysNamed(name); len(keys) > 0 && cmd.Flags().Lookup("set") != nil {
			err = fmt.Errorf("%w; a setting is changed with --set %s=VALUE", err, strings.Join(keys, "=VALUE or --set "))
		} else if best, ok := nearest.Word(name, names); ok {
			err = fmt.Errorf("%w; did you mean --%s?", err, best)
		}
	}
	return fmt.Errorf("%w\nsee \"%s --help\"", err, cmd.CommandPath())
}

// keysNamed lists the dotted keys of a configuration that a flag may have been meant for:
// those whose last part it is, or the name in a table that it names.
func keysNamed(flag string) (keys []string) {
	key := strings.ReplaceAll(flag, "-", "_")
	for _, table := range setting.Tables(configs.Config{}, key) {
		keys = append(keys, table+"."+key)
	}
	for _, dotted := range []string{key, key + ".name"} {
		if strings.Contains(dotted, ".") && setting.IsKey(configs.Config{}, dotted) {
			keys = append(keys, dotted)
		}
	}
	return keys
}

// folderName joins a configuration's name and what was set, so
// that variants of one file do not overwrite each other.
func folderName(name string, sets []string) string {
	for _, s := range sets {
		name += "-" + s
	}
	safe := func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || r == '=' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}
	name = strings.TrimLeft(strings.Map(safe, name), ".")
	const longest = 150
	switch {
	case name == "":
		return "run"
	case len(name) > longest:
		h := fnv.New64a()
		h.Write([]byte(strings.Join(sets, "\n")))
		return fmt.Sprintf("%s-%x", name[:longest], h.Sum64())
	}
	return name
}
