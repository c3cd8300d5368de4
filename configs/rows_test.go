package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/schedules/graph"
)

// What the setting of a key says about its effect is right, as far as that can be checked: the
// keys that it needs exist, the values that it tries and that an execution supports are legal,
// the classes that it prices are classes of work, and a stack has a field for what it offers.
func TestEffects(t *testing.T) {
	classes := []string{
		"products", "attention", "between", "measured", "forward", "backward", "backward_input", "backward_weight",
		"tensor", "context", "pipeline", "collective", "data_", "expert_", "expert-data_", "tied_",
		graph.Launches, graph.Updating, graph.Averaging, graph.Waiting,
	}
	for name := range costmodel.OperationClasses(&stages.Staged{}, costmodel.Device{}) {
		classes = append(classes, name)
	}
	offered := map[string]bool{}
	for i := range reflect.TypeFor[Stack]().NumField() {
		offered[reflect.TypeFor[Stack]().Field(i).Tag.Get("toml")] = true
	}
	for key := range setting.Keys(*defaults()) {
		require.Subset(t, classes, key.Prices, key.Path)
		require.True(t, key.Offered == "" || offered[key.Offered], "%s: a stack has no field %q", key.Path, key.Offered)
		require.Subset(t, []string{string(byTimes), string(byModel), string(byCollective)}, key.Idle, key.Path)
		for _, value := range slices.Concat(key.Try, key.Executed) {
			require.NoError(t, CheckSet(key.Path+"="+value))
		}
		if key.Factor != 0 {
			set := strings.Trim(key.Example, `"`)
			if set == "" {
				set = fmt.Sprint(key.Default)
			}
			unit := strings.TrimLeft(set, "0123456789.")
			number, err := strconv.ParseFloat(strings.TrimSuffix(set, unit), 64)
			require.NoError(t, err, "%s: only a number or a quantity has multiples", key.Path)
			require.NoError(t, CheckSet(fmt.Sprintf("%s=%g%s", key.Path, number*key.Factor, unit)))
		}
		for _, need := range key.Needs {
			checkNeed(t, key.Path, need)
		}
	}
}

// checkNeed checks a need by meeting it, and by not meeting it.
func checkNeed(t *testing.T, path string, need setting.Need) {
	require.NotEmpty(t, need.Keys, path)
	for _, key := range need.Keys {
		require.NotEqual(t, path, key, "a key does not need itself")
		s, value, found := setting.Find(*defaults(), key)
		require.True(t, found, "%s needs %s, which is no key", path, key)
		require.NotNil(t, value, "%s needs %s, whose value cannot be read", path, key)
		for _, v := range need.OneOf {
			require.NoError(t, CheckSet(key+"="+v), path)
		}
		met := key + "=" + s.Example
		switch {
		case need.Unset, need.Set:
		case need.OneOf != nil:
			met = key + "=" + need.OneOf[0]
		default:
			met = fmt.Sprintf("%s=%g", key, need.Above+1)
		}
		c := defaults()
		require.NoError(t, c.set(met))
		require.NotEqual(t, need.Unset, need.Met(*c), "%s: %s", path, met)
	}
}

// Every key that says how long something takes, or how fast it is, prices something.
func TestPricesOfMachines(t *testing.T) {
	priced := []string{"machine.compute.", "machine.host.", "machine.link.", "machine.network.", "machine.cores.", "times."}
	for key := range setting.Keys(Config{}) {
		if !slices.ContainsFunc(priced, func(p string) bool { return strings.HasPrefix(key.Path, p) }) {
			continue
		}
		free := slices.Contains([]string{"machine.compute.memory", "times.pair"}, key.Path)
		require.Equal(t, free, len(key.Prices) == 0, key.Path)
	}
}
