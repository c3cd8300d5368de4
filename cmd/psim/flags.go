package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
		}
	}
	return fmt.Errorf("%w\nsee \"%s --help\"", err, cmd.CommandPath())
}
