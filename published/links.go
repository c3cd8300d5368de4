package published

import (
	"fmt"
	"slices"
	"time"

	"psim/calibrate"
	"psim/configs"
	"psim/costmodel/link"
	"psim/internal/formula"
	"psim/schedules/graph"
)

// A linkOfRows says which link collectives of a table go over, and how its columns describe
// them.
type linkOfRows struct {
	Name string `toml:"name"` // of the catalog
	// Of is the column of machines if Name is empty. Each machine then has a link that is fitted to
	// its used rows.
	Of    string `toml:"of"`
	Kind  string `toml:"kind"`  // the column with the collective; "" stands for all-reduces
	Ranks string `toml:"ranks"` // expressions
	Bytes string `toml:"bytes"`
	Time  string `toml:"time"` // nanoseconds
}

// collective returns the seconds of the row's collective: collective().
func (r row) collective([]any) (any, error) {
	l, err := r.link()
	if err != nil {
		return nil, err
	}
	t, err := r.timing()
	if err != nil {
		return nil, err
	}
	return l.CollectiveTime(t.Kind, t.Ranks, t.Bytes).Seconds(), nil
}

// link returns the link of the catalog, or the one that is fitted to the machine's used rows.
func (r row) link() (link.Link, error) {
	if r.table.Link.Name != "" {
		return catalogLink(r.table.Link.Name)
	}
	timings, err := r.usedTimings()
	if err != nil {
		return link.Link{}, err
	}
	return calibrate.FitTimings(timings)
}

func catalogLink(name string) (link.Link, error) {
	for _, l := range configs.Catalog().Links {
		if l.Name == name {
			return l, nil
		}
	}
	return link.Link{}, fmt.Errorf("the catalog has no link %s", name)
}

// usedTimings lists the used rows of the row's machine.
func (r row) usedTimings() (list []calibrate.CollectiveTiming, err error) {
	for _, other := range r.records {
		if of := r.table.Link.Of; of != "" && other.text(of) != r.text(of) {
			continue
		}
		one := r
		one.record = other
		used, err := one.used()
		if err != nil {
			return nil, err
		}
		if !used {
			continue
		}
		timing, err := one.timing()
		if err != nil {
			return nil, err
		}
		list = append(list, timing)
	}
	return list, nil
}

// timing reads the measurement of the row.
func (r row) timing() (calibrate.CollectiveTiming, error) {
	var x [3]float64
	for i, expression := range []string{r.table.Link.Ranks, r.table.Link.Bytes, r.table.Link.Time} {
		var err error
		if x[i], err = formula.Number(expression, r); err != nil {
			return calibrate.CollectiveTiming{}, err
		}
	}
	kind := graph.AllReduce
	if column := r.table.Link.Kind; column != "" {
		of := link.Link{}.Tables()
		at := slices.IndexFunc(of, func(t link.CollectiveTable) bool { return t.Key == r.text(column) })
		if at < 0 {
			return calibrate.CollectiveTiming{}, fmt.Errorf("%s = %q: must be all_reduce, all_gather or reduce_scatter",
				column, r.text(column))
		}
		kind = of[at].Kind
	}
	return calibrate.CollectiveTiming{
		Kind: kind, Ranks: int(x[0]), Bytes: int64(x[1]), Time: time.Duration(x[2]),
	}, nil
}
