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

// outputFlags holds the flags that most verbs share: changes of settings, the form in which
// results are printed, and where they are saved.
type outputFlags struct {
	sets      []string
	json, csv bool
	out       string
	overwrite bool
	quiet     bool
	verbose   bool
}

// registerInput declares the flags of a verb that loads a configuration.
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

// registerVerbose declares the flag of a verb that can explain what it reads and decides.
func (f *outputFlags) registerVerbose(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print on stderr what is read, assumed and decided")
}

// note prints lines if --verbose is given.
func (f *outputFlags) note(stderr io.Writer, lines func() []string) {
	if f.verbose {
		for _, line := range lines() {
			fmt.Fprintln(stderr, visible(line))
		}
	}
}

// outputHelp is the help of the flags --json, --csv and --out. An empty help for --csv leaves out that
// flag.
type outputHelp struct{ json, csv, out string }

// registerOutput declares the flags for the form of the output and where it is saved.
func (f *outputFlags) registerOutput(flags *pflag.FlagSet, help outputHelp) {
	flags.BoolVar(&f.json, "json", false, help.json)
	if help.csv != "" {
		flags.BoolVar(&f.csv, "csv", false, help.csv)
	}
	f.registerOut(flags, help.out)
}

// registerOut declares where the files of a verb go, and whether they replace others.
func (f *outputFlags) registerOut(flags *pflag.FlagSet, help string) {
	flags.VarP((*pathValue)(&f.out), "out", "o", help)
	registerOverwrite(flags, &f.overwrite)
}

// registerOverwrite declares whether files are replaced that psim did not write.
func registerOverwrite(flags *pflag.FlagSet, overwrite *bool) {
	flags.BoolVar(overwrite, "overwrite", false,
		"replace files with the same names, even if psim did not write them or they were changed since")
}

// to returns the folder with what --overwrite says.
func (f *outputFlags) to(folder files.Folder) files.Folder {
	folder.Overwrite = f.overwrite
	return folder
}

// pathValue is the value of a flag that names a file or a folder.
type pathValue string

// Set refuses an empty name.
func (n *pathValue) Set(text string) error {
	if text == "" {
		return errors.New("is empty")
	}
	*n = pathValue(text)
	return nil
}

// Type returns the placeholder for the value in help.
func (n *pathValue) Type() string { return "string" }

// String returns the name.
func (n *pathValue) String() string { return string(*n) }

// exclusive refuses two forms of output at once.
func (f *outputFlags) exclusive() error {
	if f.json && f.csv {
		return errors.New("--json and --csv cannot be combined; stdout holds one of them")
	}
	return nil
}

// clearDash makes --out - mean that nothing is saved, for verbs that save nothing by default.
func (f *outputFlags) clearDash() {
	if f.out == "-" {
		f.out = ""
	}
}

// checkOut refuses a folder that cannot be written to, before anything is computed.
func (f *outputFlags) checkOut(folder files.Folder) error {
	if folder.Path == "" {
		return nil
	}
	return usageError("out", f.to(folder).Check())
}

// reportWritten prints which files were written and to which folder.
func (f *outputFlags) reportWritten(stderr io.Writer, names, folder string) {
	if !f.quiet {
		fmt.Fprintf(stderr, "wrote %s in %s\n", names, strings.ReplaceAll(visible(folder), "\n", `\n`))
	}
}

// flagged names the flag that an error is about.
func flagged(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s %w", flag, err)
}

// usageError names the flag, too, and makes any error one of usage: before the work begins, every
// error comes from the value of the flag.
func usageError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s %s", flag, err)
}

// valueRules says what the value of a flag must be, by the flag's type.
var valueRules = map[string]string{
	"int":      "must be a whole number of at most 18 digits",
	"uint64":   "must be a whole number from 0 to 18446744073709551615",
	"float64":  "must be a number, such as 1e-3",
	"bool":     "must be true or false",
	"duration": "must be a time with its unit, such as 30s or 10m",
	"intSlice": "must be whole numbers, such as 1,2,4",
}

// explainFlagError rewords an error of the flag parser, and names the help to read.
func explainFlagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		flag := invalid.GetFlag()
		if rule, ok := valueRules[flag.Value.Type()]; ok {
			err = fmt.Errorf("--%s %s: %s", flag.Name, invalid.GetValue(), rule)
		} else if _, ok := flag.Value.(*pathValue); ok {
			err = fmt.Errorf("--%s: must not be empty; name a path, or leave the flag out", flag.Name)
		}
	}
	var bare *pflag.ValueRequiredError
	if errors.As(err, &bare) && bare.GetSpecifiedShortnames() == "" {
		err = fmt.Errorf("--%s needs a value", bare.GetSpecifiedName())
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		err = unknownFlagError(cmd.Flags(), unknown.GetSpecifiedName())
	}
	return fmt.Errorf("%w\nsee \"%s --help\"", err, cmd.CommandPath())
}

// unknownFlagError suggests a setting or a flag with a similar name.
func unknownFlagError(flags *pflag.FlagSet, name string) error {
	if keys := settingsNamed(name); len(keys) > 0 && flags.Lookup("set") != nil {
		return fmt.Errorf("unknown flag --%s; a setting is changed with --set %s=VALUE",
			name, strings.Join(keys, "=VALUE or --set "))
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if best, ok := nearest.Word(name, names); ok {
		return fmt.Errorf("unknown flag --%s; did you mean --%s?", name, best)
	}
	return fmt.Errorf("unknown flag --%s", name)
}

// settingsNamed lists the dotted keys of a configuration that an unknown flag may stand for: keys
// whose last part is the flag, and the key "name" of a table that the flag names.
func settingsNamed(flag string) (keys []string) {
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

// folderName joins a configuration's name and the changes of --set, so that variants of one file do
// not overwrite each other.
func folderName(name string, sets []string) string {
	for _, s := range sets {
		name += "-" + s
	}
	safe := func(r rune) rune {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if letter || '0' <= r && r <= '9' || strings.ContainsRune(".-_=", r) {
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
