package published

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"psim/configs"
	"psim/costmodel/group"
	"psim/internal/formula"
)

// rules lists, by name, the functions that do not need a prediction.
var rules = map[string]func(arguments []any) (any, error){
	"upper":     ofText(strings.ToUpper),
	"chip":      ofText(chipOf),
	"binary":    ofNumbers(1, func(x []float64) any { return binary(int64(x[0])) }),
	"seconds":   ofNumbers(1, func(x []float64) any { return time.Duration(x[0]).Seconds() }), // of nanoseconds
	"even":      ofNumbers(2, func(x []float64) any { return partition(int(x[0]), int(x[1]), 0, false) }),
	"partition": cut,
	"rate":      rate,
	"reached": ofNumbers(5, func(x []float64) any {
		r := group.Routing{Experts: int(x[0]), PerToken: int(x[1]), Groups: int(x[2]), GroupsPerToken: int(x[3])}
		return r.Reached(int(x[4]))
	}),
}

func ofText(f func(string) string) func([]any) (any, error) {
	return func(arguments []any) (any, error) {
		if len(arguments) != 1 {
			return nil, fmt.Errorf("takes a text, not %v", arguments)
		}
		return f(formula.Text(arguments[0])), nil
	}
}

func ofNumbers(count int, f func(x []float64) any) func([]any) (any, error) {
	return func(arguments []any) (any, error) {
		x, err := formula.Numbers("the function", arguments, count)
		if err != nil {
			return nil, err
		}
		return f(x), nil
	}
}

// chipOf returns the name of the chip at the beginning of a device's name.
func chipOf(device string) string {
	name, _, _ := strings.Cut(device, "-")
	return name
}

// binary prints a size in powers of 1024, as nccl-tests do.
func binary(bytes int64) string {
	unit := 0
	for ; bytes >= 1024 && bytes%1024 == 0 && unit < 3; unit++ {
		bytes /= 1024
	}
	return fmt.Sprint(bytes, []string{" B", " KiB", " MiB", " GiB"}[unit])
}

// cut applies partition(blocks, stages, predictors, fill).
func cut(arguments []any) (any, error) {
	if len(arguments) != 4 {
		return nil, fmt.Errorf("partition takes 4 arguments, not %d", len(arguments))
	}
	x, err := formula.Numbers("partition", arguments[:3], 3)
	if err != nil {
		return nil, err
	}
	fill, ok := formula.AsTruth(arguments[3])
	if !ok {
		return nil, fmt.Errorf("partition: %v is neither true nor false", arguments[3])
	}
	return partition(int(x[0]), int(x[1]), int(x[2]), fill), nil
}

// partition returns the numbers of layers of the stages of a transformer: equally many blocks in each,
// the embedding before them, and predictors of further tokens, norm and head after them. If blocks do
// not divide evenly, the first and the last stage have fewer, or with fill only the last. It returns ""
// for one stage.
func partition(blocks, stages, predictors int, fill bool) string {
	if stages == 1 {
		return ""
	}
	each := (blocks + stages - 1) / stages
	ends := blocks - (stages-2)*each // of the first and the last stage
	first := min(each, (ends+1)/2)
	if fill {
		first = min(each, ends)
	}
	list := make([]string, stages)
	for s := range list {
		list[s] = strconv.Itoa(each)
	}
	list[0], list[stages-1] = strconv.Itoa(1+first), strconv.Itoa(ends-first+predictors+2)
	return "[" + strings.Join(list, " ") + "]"
}

// rate returns the catalog's rate of large products in FLOP/s: rate(device, precision).
func rate(arguments []any) (any, error) {
	if len(arguments) == 2 {
		for _, d := range configs.Catalog().Devices {
			if d.Name == formula.Text(arguments[0]) {
				return d.Achievable(formula.Text(arguments[1]))
			}
		}
	}
	return nil, fmt.Errorf("rate takes a device of the catalog and a precision, not %v", arguments)
}
