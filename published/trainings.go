package published

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"psim/costmodel/training"
	"psim/internal/formula"
)

// trained fills in the fields of a training run.
func (r row) trained(made *DataPoint) error {
	var err error
	if made.Stack, err = r.stack(); err != nil {
		return err
	}
	device, err := r.key("machine.device")
	if err != nil {
		return err
	}
	precision, err := r.key("train.precision")
	if err != nil {
		return err
	}
	p, err := r.prediction(false)
	if err != nil {
		return err
	}
	made.Verdict = p.MemoryVerdict
	made.Device, made.Precision = deviceIn(formula.Text(device), formula.Text(precision)), p.Precision
	made.Mixture = p.ActiveParameters < p.Parameters
	made.Training = r.training()
	return nil
}

// stack returns the stack of a training run, or "" without one.
func (r row) stack() (string, error) {
	values, err := r.settings()
	if err != nil || values["train.stack"] == "" {
		return "", err
	}
	return strconv.Unquote(values["train.stack"])
}

// deviceIn names a device, with the precision if it has fewer than 16 bits and so other rates.
func deviceIn(device, precision string) string {
	if (training.Options{Precision: precision}).Narrow() {
		return device + " in " + precision
	}
	return device
}

// training names the network of a run and its number of devices, without its plan. It returns "" if the
// data lack the numbers of the network.
func (r record) training() string {
	if r.cells["model.heads"] == "" || r.cells["model.hidden"] == "" || r.cells["batch.global"] == "" {
		return ""
	}
	devices := 1
	for _, column := range []string{"parallel.data", "schedule.stages", "parallel.tensor"} {
		if n, err := strconv.ParseFloat(r.cells[column], 64); err == nil {
			devices *= int(max(1, n))
		}
	}
	return fmt.Sprintf("%s layers of %s, %s heads, %s samples on %d devices",
		r.text("model.layers"), r.text("model.hidden"), r.text("model.heads"), r.text("batch.global"), devices)
}

// A size is a number by which rows are classified, and the limits of its classes.
type size struct {
	by     string
	of     float64
	limits []float64
	names  string // of the classes
}

// facets classifies a training run by the information of its source.
func (r row) facets() ([]Facet, error) {
	p, err := r.prediction(false)
	if err != nil {
		return nil, err
	}
	sizes := []size{
		{"GPUs", float64(p.Devices), []float64{8, 64, 256}, "to 8|to 64|to 256|more"},
		{"parameters", float64(p.Parameters), []float64{2e9, 1e10, 5e10}, "to 2B|to 10B|to 50B|more"},
		{"tokens of a sample", 0, []float64{1024, 2048, 8192}, "to 1,024|2,048|to 8,192|more"},
		{"samples of a microbatch", 0, []float64{1, 4, 16}, "1|to 4|to 16|more"},
	}
	if sizes[2].of, err = formula.Number("model.sequence_length", r); err != nil {
		return nil, err
	}
	if sizes[3].of, err = formula.Number("batch.micro", r); err != nil {
		return nil, err
	}
	device, err := r.key("machine.device")
	if err != nil {
		return nil, err
	}
	list := []Facet{{By: "device", Class: formula.Text(device)}}
	for _, s := range sizes {
		i := 0
		for i < len(s.limits) && s.of > s.limits[i] {
			i++
		}
		list = append(list, Facet{By: s.by, Class: strings.Split(s.names, "|")[i], order: i})
	}
	for _, key := range []string{"parallel.tensor", "schedule.stages", "train.recompute"} {
		if value, err := r.key(key); err == nil {
			list = append(list, Facet{By: key, Class: formula.Text(value)})
		}
	}
	for _, f := range r.table.Facets {
		class, err := formula.Fill(f.Class, r)
		if err != nil {
			return nil, err
		}
		list = append(list, Facet{By: f.By, Class: cmp.Or(class, "none"), few: f.Few})
	}
	return list, nil
}
