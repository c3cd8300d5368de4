package published

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/configs"
)

// A stackFit says which constants of a stack on a chip are fitted to which rows.
type stackFit struct {
	stack, chip string
	keys        []string
	rows        []record
}

// stackFits lists them. Every file of rows has as much weight as any other.
func stackFits() []stackFit {
	var vtrain []record
	for i, r := range records("vtrain_single_node.csv") {
		if i%14 == 0 {
			vtrain = append(vtrain, r)
		}
	}
	attention, layer, rate, half := "machine.compute.attention", "machine.host.layer", "machine.compute.efficiency", "machine.compute.half_rows"
	list := []stackFit{
		{"pytorch-fsdp", "a100", []string{attention, layer}, usedOn("runs_mpt.csv", "a100")},
		{"pytorch-fsdp", "h100", []string{attention, layer, rate}, usedOn("runs_mpt.csv", "h100")},
		{"megatron-deepspeed", "a100", []string{rate, "machine.host.operation", "machine.host.task"}, append(usedOn("runs_bloom.csv", "a100"), vtrain...)},
		{"megatron-te", "h100", []string{rate, half}, usedOn("runs_dgxc.csv", "h100")},
		{"torchtitan", "a100", []string{rate}, usedOn("runs_torchtitan.csv", "a100")},
	}
	for _, chip := range []string{"h100", "gb200", "gb300"} {
		list = append(list, stackFit{"megatron-te", chip, []string{rate + "_fp8"}, dense(bridgeUsed(chip, "fp8", "mxfp8"))})
	}
	list = append(list, stackFit{"megatron-te", "h100", []string{"machine.host.operation"}, slices.DeleteFunc(bridgeUsed("h100", "fp8"), func(r record) bool {
		return r.text("model.preset") != "qwen3-30b-a3b"
	})})
	for _, chip := range []string{"gb200", "gb300"} {
		list = append(list, stackFit{"megatron-te", chip, []string{rate + "_fp4"}, bridgeUsed(chip, "nvfp4")})
	}
	return list
}

// usedOn lists the rows of training runs on a chip that constants are fitted to.
func usedOn(file, chip string) []record {
	return slices.DeleteFunc(records(file), func(r record) bool {
		return r.text("used") == "" || !strings.HasPrefix(r.text("machine.device"), chip+"-")
	})
}

// A constantOf is what a catalog has for a key, such as 2.02ms: a number and a unit.
type constantOf struct {
	key, unit string
	value     float64
}

var number = regexp.MustCompile(`^"?([0-9.]+)([a-zµ]*)"?$`)

// catalog reads the constants: a stack's own, or its device's rate.
func (f stackFit) catalog() (list []constantOf) {
	for _, key := range f.keys {
		c := constantOf{key: key}
		for _, s := range configs.Stacks() {
			if s.Name != f.stack {
				continue
			}
			for _, set := range slices.Concat(s.Sets, s.Devices[f.chip], s.Mixtures) {
				if k, value, _ := strings.Cut(set, " = "); k == key {
					parts := number.FindStringSubmatch(value)
					c.value, _ = strconv.ParseFloat(parts[1], 64)
					c.unit = parts[2]
				}
			}
		}
		if c.value == 0 { // the stack leaves it to the device
			c.value = f.device(key)
		}
		list = append(list, c)
	}
	return list
}

// device returns the catalog's value: of a key, or the share of the peak that products in 16
// bits reach.
func (f stackFit) device(key string) float64 {
	name := f.rows[0].text("machine.device")
	for _, d := range configs.Catalog().Devices {
		switch {
		case d.Name != name:
		case key == "machine.compute.half_rows":
			return d.HalfRows
		default:
			return d.Efficiency.BF16
		}
	}
	panic("no device " + name)
}

// error averages the absolute logarithms of predicted over published, file by file, with
// the constants at so many times the catalog's, by logarithm.
func (f stackFit) error(constants []constantOf, x []float64) float64 {
	var sets []string
	for i, c := range constants {
		sets = append(sets, c.key+"="+c.at(x[i]))
	}
	sum, rows := map[string]float64{}, map[string]float64{}
	for _, r := range f.rows {
		e, err := f.off(r, sets)
		if err != nil { // a constant that is out of range
			return math.MaxFloat64
		}
		sum[r.file] += math.Abs(e)
		rows[r.file]++
	}
	var mean float64
	for file := range sum {
		mean += sum[file] / rows[file] / float64(len(sum))
	}
	return mean
}

// at writes a constant at so many times its value, by logarithm.
func (c constantOf) at(x float64) string { return fmt.Sprintf("%.4g%s", c.value*math.Exp(x), c.unit) }

// off computes the logarithm of a row's predicted over published time.
func (f stackFit) off(r record, sets []string) (float64, error) {
	if r.file == "vtrain_single_node.csv" {
		text := r.vtrainConfig() + fmt.Sprintf("stack = %q\n[machine]\ndevice = \"a100-80gb-sxm\"\ndevices_per_node = 8\n", f.stack)
		p, err := predict(configs.Parse("table", []byte(text), sets...))
		return math.Log(p.Summary.StepTime.Seconds() * 1e3 / r.number("iter_ms")), err
	}
	p, err := r.predicted(sets...)
	return math.Log(p.StepTime / r.number("seconds")), err
}

// fitStacks writes a table of the constants, as the catalogs have them and as they come
// closest to their rows.
func fitStacks(folder string) error {
	var text bytes.Buffer
	fmt.Fprint(&text, "# The constants of stacks that are fitted, as the catalogs have them and where the rows are met best, and how far\n# predictions of these rows are off on average (of logarithms). Written by make fit.\n")
	w := csv.NewWriter(&text)
	w.Write([]string{"stack", "chip", "key", "catalog", "fitted", "rows", "off_catalog", "off_fitted"})
	for _, f := range stackFits() {
		constants := f.catalog()
		off := func(x []float64) float64 { return f.error(constants, x) }
		best := descend(len(constants), 12, off)
		before, after := fmt.Sprintf("%.4f", off(make([]float64, len(constants)))), fmt.Sprintf("%.4f", off(best))
		for i, c := range constants {
			if err := w.Write([]string{f.stack, f.chip, c.key, c.at(0), c.at(best[i]), strconv.Itoa(len(f.rows)), before, after}); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return os.WriteFile(filepath.Join(folder, "stack_constants.csv"), text.Bytes(), 0o644)
}
