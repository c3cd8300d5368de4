package rankings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"psim/internal/files"
	"psim/internal/jsonfile"
	"psim/results"
)

// A PlanSearch identifies a search over plans. It is saved in search.json.
type PlanSearch struct {
	Schema int    `json:"schema"`
	Name   string `json:"name"` // of the configuration
	// Subject is the model and the devices in words.
	Subject string `json:"subject,omitempty"`
	// Configuration is the fingerprint of the configuration, and Version the version of psim.
	Configuration string      `json:"configuration"`
	Version       string      `json:"version,omitempty"`
	Devices       int         `json:"devices"`
	Trainer       string      `json:"trainer,omitempty"`
	Schedules     []string    `json:"schedules,omitempty"`
	Fix           []string    `json:"fix,omitempty"`
	Vary          []Variation `json:"vary,omitempty"`
	Margin        float64     `json:"margin"`
	Rows          int         `json:"rows"` // how many of the best plans are wanted
	// Capacity is the memory in bytes that a rank may use; 0 is unlimited or not known.
	Capacity int64 `json:"capacity,omitempty"`
	// Map names the dimensions of the map of the plans.
	Map []string `json:"map,omitempty"`
	// Shard names the part of the plans that was searched, such as 2/4; it is empty if all
	// plans were.
	Shard string `json:"shard,omitempty"`
	// Division names the way in which a shard's plans were chosen; it is empty for those of older
	// versions of psim, and if all plans were searched.
	Division string `json:"division,omitempty"`
	// Limit is the step, in nanoseconds, of the last of the best plans that the shards had found when this one ended;
	// it did not look at plans that must be slower. 0 is what it found itself.
	Limit int64 `json:"limit_ns,omitempty"`
	// Kept is the configuration of a shard, with which its plans are predicted where shards are merged.
	Kept json.RawMessage `json:"kept,omitempty"`
}

// SavedPlans is the outcome of a search over plans as it is saved in a folder, or merged from
// the folders of shards.
type SavedPlans struct {
	PlanSearch
	Plans  []json.RawMessage // each a RankedPlan, or of a shard a foundPlan
	Points []PlanPoint       // as Settle puts them
	// Squares are the best known plans of the squares of the map in which no simulated plan fits.
	Squares []PlanSquare
	Space   int
	Gap     float64
	// Partial says that the search was interrupted.
	Partial bool
}

// PlansFile is the content of plans.json: the part of the outcome that does not depend on the
// number of workers and machines.
type PlansFile struct {
	Plans   []json.RawMessage `json:"plans"`
	Squares []PlanSquare      `json:"squares,omitempty"` // of the map, in which no simulated plan fits
	Space   int               `json:"space"`
	Gap     float64           `json:"gap"`
	Partial bool              `json:"partial,omitempty"`
}

// Saved puts a ranking in the form of its files.
func (p PlanRanking) Saved(search PlanSearch, points []PlanPoint) (SavedPlans, error) {
	s := SavedPlans{
		PlanSearch: search, Points: points, Space: p.Space, Gap: p.Gap, Partial: p.Partial,
		Plans: []json.RawMessage{},
	}
	for _, plan := range p.Plans {
		plan.Build, plan.Simulation = nil, nil
		var saved any = plan.writable()
		if search.Shard != "" {
			saved = foundPlan{plan.StepTime, plan.Plan, plan.Set}
		}
		text, err := CompactJSON(saved)
		if err != nil {
			return s, err
		}
		s.Plans = append(s.Plans, text)
	}
	return s, s.settle()
}

// settle puts the points in the form that is the same for equal searches.
func (s *SavedPlans) settle() error {
	last, err := s.Last()
	if err == nil {
		s.Points = Settle(s.Points, last)
	}
	return err
}

// A foundPlan is a plan of a shard, which is predicted where shards are merged.
type foundPlan struct {
	StepTime float64   `json:"step_time_s"`
	Plan     PlanShape `json:"plan"`
	Set      []string  `json:"set"`
}

// A ranked holds the fields by which plans are ordered.
type ranked struct {
	StepTime float64  `json:"step_time_s"`
	Set      []string `json:"set"`
}

// Last returns the step time of the last of the best plans, or 0 if there are fewer than are
// wanted.
func (s SavedPlans) Last() (time.Duration, error) {
	if len(s.Plans) < s.Rows {
		return 0, nil
	}
	var last ranked
	err := json.Unmarshal(s.Plans[s.Rows-1], &last)
	return time.Duration(last.StepTime*float64(time.Second) + 0.5), err
}

// Rank puts the best plan first, keeps the number of plans that are wanted, and settles the points.
func (s *SavedPlans) Rank() error {
	keys := map[string]ranked{}
	for _, text := range s.Plans {
		var r ranked
		if err := json.Unmarshal(text, &r); err != nil {
			return err
		}
		keys[string(text)] = r
	}
	slices.SortStableFunc(s.Plans, func(a, b json.RawMessage) int {
		x, y := keys[string(a)], keys[string(b)]
		return cmp.Or(cmp.Compare(x.StepTime, y.StepTime), slices.Compare(x.Set, y.Set))
	})
	s.Plans = s.Plans[:min(s.Rows, len(s.Plans))]
	return s.settle()
}

// Ranking reads the plans. Fields that are not saved stay empty.
func (s SavedPlans) Ranking() (PlanRanking, error) {
	p := PlanRanking{
		Plans: []RankedPlan{}, Space: s.Space, Gap: s.Gap, Partial: s.Partial,
		Devices:  s.Devices,
		PrunedBy: map[string]int{}, Varied: VariedKeys(s.Vary),
	}
	for _, text := range s.Plans {
		plan := RankedPlan{Result: results.Result{Bubble: results.UnknownBubble()}}
		if err := json.Unmarshal(text, &plan); err != nil {
			return p, err
		}
		p.Plans = append(p.Plans, plan)
	}
	last, err := s.Last()
	for i := range s.Points {
		switch state := s.Points[i].state(last); state {
		case pointSimulated:
			p.Evaluated++
		case pointOpen:
		default:
			p.PrunedBy[state]++
		}
	}
	p.count()
	return p, err
}

// count adds up the plans that were discarded.
func (p *PlanRanking) count() {
	p.Pruned, p.Bounded = 0, p.PrunedBy[Slower]
	for _, n := range p.PrunedBy {
		p.Pruned += n
	}
}

// LoadPlans reads a search from its folder.
func LoadPlans(folder string) (SavedPlans, error) {
	return files.Steady(folder, func() (s SavedPlans, err error) {
		if s.PlanSearch, err = files.Read(filepath.Join(folder, "search.json"), readPlanSearch); err != nil {
			return s, err
		}
		plans, err := files.Read(filepath.Join(folder, "plans.json"), s.readPlansFile)
		if err == nil {
			s.Plans, s.Space, s.Gap, s.Partial = plans.Plans, plans.Space, plans.Gap, plans.Partial
			s.Squares = plans.Squares
			s.Points, err = files.Read(filepath.Join(folder, "points.csv"), ReadPlanPoints)
		}
		if os.IsNotExist(err) {
			err = fmt.Errorf("%s: has a search.json, but not all of plans.json and points.csv", folder)
		}
		if err == nil {
			err = files.Verify(folder, "search.json", "plans.json", "points.csv")
		}
		return s, err
	})
}

func readPlanSearch(r io.Reader) (s PlanSearch, err error) {
	err = jsonfile.Read(r, jsonfile.MostBytes, &s)
	if err == nil && (s.Configuration == "" || s.Devices < 1 || s.Rows < 1) {
		err = errors.New("is not a search.json: configuration, devices or rows is missing")
	}
	return s, err
}

// readPlansFile reads the plans.json of the search.
func (s PlanSearch) readPlansFile(r io.Reader) (p PlansFile, err error) {
	if err = jsonfile.Read(r, jsonfile.MostBytes, &p); err != nil {
		return p, err
	}
	for i, text := range p.Plans {
		var line bytes.Buffer
		if err := json.Compact(&line, text); err != nil {
			return p, err
		}
		p.Plans[i] = line.Bytes()
		if s.Kept != nil {
			continue
		}
		if _, err := results.ReadResult(bytes.NewReader(text)); err != nil {
			return p, fmt.Errorf("plans[%d]: %w", i, err)
		}
	}
	return p, nil
}
