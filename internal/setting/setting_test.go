package setting_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/setting"
	"psim/internal/units"
)

// oven is an option struct as other packages have them.
type oven struct {
	Trays  int            `toml:"trays"`
	Mode   string         `toml:"mode"`
	Warm   *float64       `toml:"warm"`
	Time   units.Duration `toml:"time"`
	Order  []int32        `toml:"order"`
	Fan    fan            `toml:"fan"`
	Shelf  []shelf        `toml:"shelf"`
	Hidden int            `toml:"-"`
}

func (oven) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "trays", Default: 2, Range: setting.Count(), Text: "of cookies"},
		{Key: "mode", Default: "gas", OneOf: []string{"gas", "electric", "wood"}, Text: "what heats it"},
		{Key: "warm", Example: "0.5", Range: setting.Range{Max: 1, BelowMax: true}, Text: "share of the heat that stays", Unset: "as built"},
		{Key: "time", Example: `"10min"`, Required: true, Range: setting.Positive(), Text: "of baking", With: []string{"cake", "pie"}},
		{Key: "order", Example: "[1, 0]", Text: "of the trays", Unset: "as they come"},
		{Key: "fan", Text: "what moves the air"},
		{Key: "shelf", Text: "one for each"},
	}
}

type fan struct {
	Speed int  `toml:"speed"`
	On    bool `toml:"on"`
}

func (fan) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "speed", Default: 0, Range: setting.Between(0, 3), Text: "steps"},
		{Key: "on", Default: true, Text: "turns"},
	}
}

type shelf struct {
	Height units.Bytes `toml:"height"`
}

func (shelf) Settings() []setting.Setting {
	return []setting.Setting{{Key: "height", Required: true, Example: `"1B"`, Range: setting.Between(1, 8), Text: "counts in bytes here"}}
}

func Example() {
	var o oven
	setting.Defaults(&o)
	fmt.Println(o.Trays, o.Mode, o.Fan.On)
	fmt.Println(setting.Validate(o))
	for _, err := range setting.Fill(&o, map[string]any{"trays": int64(0), "trayz": int64(1)}) {
		fmt.Println(err)
	}
	if err := setting.WriteReference(os.Stdout, kitchen{}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2 gas true
	// time is missing; write for example time = "10min"
	// trays = 0: must be at least 1
	// trayz: unknown key; did you mean trays?
	//
	// # Where it is baked
	// [oven]
	// # trays = 2               # of cookies; at least 1
	// # mode = "gas"            # what heats it; one of gas, electric, wood
	// # warm = 0.5              # share of the heat that stays; at least 0 and less
	//                           # than 1; default: as built
	// time = "10min"            # of baking; more than 0; only with cake or pie
	// # order = [1, 0]          # of the trays; default: as they come
	//
	// # What moves the air
	// # [oven.fan]
	// # speed = 0               # steps; 0 to 3
	// # on = true               # turns
	//
	// # One for each
	// # [[oven.shelf]]
	// # height = "1B"           # counts in bytes here; 1B to 8B
}

type kitchen struct {
	Oven oven `toml:"oven"`
}

func (kitchen) Settings() []setting.Setting {
	return []setting.Setting{{Key: "oven", Text: "where it is baked"}}
}

func TestFill(t *testing.T) {
	var o oven
	require.Empty(t, setting.Fill(&o, map[string]any{
		"trays": int64(3), "mode": "wood", "warm": int64(0), "time": "1s", "order": []any{int64(1), int64(0)},
		"fan": map[string]any{"speed": int64(1)}, "shelf": []any{map[string]any{"height": "2B"}},
	}))
	require.Equal(t, oven{Trays: 3, Mode: "wood", Warm: new(float64), Time: 1e9, Order: []int32{1, 0}, Fan: fan{Speed: 1}, Shelf: []shelf{{2}}}, o)
	for want, table := range map[string]map[string]any{
		`trays: must be an integer, not a string`:                                            {"trays": "3"},
		`trays: must be an integer, not a decimal number`:                                    {"trays": 3.5},
		`trays = 4294967296: must be at most 2147483647`:                                     {"trays": int64(1 << 32)},
		`mode = "coal": must be one of gas, electric, wood`:                                  {"mode": "coal"},
		`mode = "wod": must be one of gas, electric, wood; did you mean wood?`:               {"mode": "wod"},
		`mode: must be a string, not true or false`:                                          {"mode": true},
		`warm = 1: must be at least 0 and less than 1`:                                       {"warm": 1.0},
		`warm = NaN: must be at least 0 and less than 1`:                                     {"warm": math.NaN()},
		`warm: must be a decimal number, not a table`:                                        {"warm": map[string]any{}},
		`time: "1" has no unit; write for example "1ms"`:                                     {"time": int64(1)},
		`time = 0: must be more than 0 and have a unit; write for example time = "10min"`:    {"time": int64(0)},
		`time = "-1": must be more than 0 and have a unit; write for example time = "10min"`: {"time": "-1"},
		`time: "x" is not a plain number with a unit; write for example "20ms"`:              {"time": "x"},
		`time: must be a string with a unit, not a list`:                                     {"time": []any{}},
		`time = "0s": must be more than 0`:                                                   {"time": "0s"},
		`order: must be a list, not an integer`:                                              {"order": int64(3)},
		`order: 4294967296 is out of range`:                                                  {"order": []any{int64(1 << 32)}},
		`shelf: must be a list of tables; write [[shelf]] above the keys of each`:            {"shelf": int64(3)},
		`fan: must be a table; write [fan] and its keys below it`:                            {"fan": int64(3)},
		`fan.speed = 4: must be 0 to 3`:                                                      {"fan": map[string]any{"speed": int64(4)}},
		`shelf[1].height is missing; write for example height = "1B"`:                        {"shelf": []map[string]any{{"height": "8B"}, {}}},
		`shelf[0].height = "9B": must be 1B to 8B`:                                           {"shelf": []map[string]any{{"height": "9B"}}},
		`hidden: unknown key; use one of trays, mode, warm, time, order, fan, shelf`:         {"hidden": int64(1)},
	} {
		errs := setting.Fill(&oven{}, table)
		require.Len(t, errs, 1)
		require.EqualError(t, errs[0], want)
	}
}

func TestValidate(t *testing.T) {
	good := oven{Time: 1}
	require.NoError(t, setting.Validate(good)) // a zero is not given
	for want, change := range map[string]func(*oven){
		"trays = -1: must be at least 1":                              func(o *oven) { o.Trays = -1 },
		"fan.speed = 4: must be 0 to 3":                               func(o *oven) { o.Fan.Speed = 4 },
		`shelf[0].height is missing; write for example height = "1B"`: func(o *oven) { o.Shelf = make([]shelf, 1) },
		`time is missing; write for example time = "10min"`:           func(o *oven) { o.Time = 0 },
	} {
		bad := good
		change(&bad)
		require.EqualError(t, setting.Validate(bad), want)
	}
	require.NoError(t, setting.ValidateWith(oven{Trays: -1}, "bread"))
	require.EqualError(t, setting.ValidateWith(oven{Trays: -1, Time: -1}, "cake"), `time = "-1ns": must be more than 0`)
}

func TestGivenAndOverlay(t *testing.T) {
	half := 0.5
	over := setting.Overlay(oven{Trays: 2, Mode: "gas", Hidden: 1}, oven{Mode: "wood", Warm: &half, Hidden: 2})
	require.Equal(t, oven{Trays: 2, Mode: "wood", Warm: &half, Hidden: 2}, over)
	var given []string
	for s, value := range setting.Given(over) {
		given = append(given, fmt.Sprint(s.Key, "=", value))
	}
	require.Equal(t, "trays=2 mode=wood warm=0.5", strings.Join(given, " "))
	require.True(t, setting.IsKey(over, "fan.speed"))
	require.False(t, setting.IsKey(over, "fan.mode"))
	require.True(t, setting.IsTable(over, "fan"))
	require.False(t, setting.IsTable(over, "fan.speed"))
	require.False(t, setting.IsTable(over, "trays"))
	s := setting.Setting{With: []string{"cake", "pie"}}
	require.True(t, s.Meaningless("bread"))
	require.False(t, s.Meaningless("pie"))
}

// The tables that have a key are listed, those in tables too.
func TestTables(t *testing.T) {
	require.Equal(t, []string{"fan"}, setting.Tables(oven{}, "speed"))
	require.Nil(t, setting.Tables(oven{}, "trays"), "of the whole")
	require.Nil(t, setting.Tables(oven{}, "spede"))
}
