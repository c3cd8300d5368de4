// Package sweep predicts a configuration with every combination of the values of some
// settings, on one machine or in shards on several, and joins what these have found.
package sweep

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"

	"psim"
	"psim/configs"
	"psim/internal/files"
	"psim/internal/ram"
	"psim/reports"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/results"
	"psim/results/rankings"
)

// Options says what a sweep varies, and where it keeps what it has found.
type Options struct {
	Vary  []rankings.Variation
	Shard rankings.Shard // the zero value is all points
	// Folder is where the files go, "" for none. Points that an earlier sweep of the
	// same configurations has left there are not computed again.
	Folder string
	// Version tells versions of psim apart: points of another are computed again.
	Version string
	// Progress, which may be nil, is told how many points are finished of those that
	// have to be computed.
	Progress func(done, of int)
}

// A Swept is the outcome of a sweep.
type Swept struct {
	rankings.Sweep
	// Reused counts the points that were there before, and Stale those whose
	// settings were, but with another configuration or version of psim.
	Reused, Stale int
	// Damaged counts the lines of an interrupted sweep that cannot be read; their points
	// are computed again.
	Damaged int
	// Kept counts the points that a later call need not compute.
	Kept int
	// Wrote names the files in the folder, and Unsaved is why there are none.
	Wrote   []string
	Unsaved error
}

// Run predicts a configuration with every combination of the values of some
// settings, the last of which changes first, on all cores. A combination that cannot
// be is a point with an error; a value that no configuration can have is an error of
// the sweep. A sweep that is killed or interrupted keeps the points that it has
// finished in its folder, and the same call goes on from there. If the context ends
// it, Sweep returns what it has found so far beside the context's error.
func Run(ctx context.Context, c *configs.Config, o Options) (*Swept, error) {
	s := &sweep{config: c, options: o}
	if err := s.plan(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.run(ctx)
	return s.end(ctx)
}

type sweep struct {
	Swept
	config  *configs.Config
	options Options
	todo    []pending
	journal *sweepJournal // nil for none
	alone   sync.RWMutex  // held whole by a point too large to be computed beside others
	mutex   sync.Mutex    // of what follows, and of the journal
	done    int
	lost    error // the first error of the journal
}

// pending holds a point that is to be computed, and its configuration.
type pending struct {
	*rankings.SweepPoint
	config *configs.Config
}

// open takes over what is finished, and opens the journal if anything is not.
func (s *sweep) open() error {
	known, stale := map[string]rankings.SweepPoint{}, map[string]bool{}
	if s.options.Folder != "" {
		var err error
		if s.journal, known, err = openSweep(s.options.Folder, s.options.Version); err != nil {
			return err
		}
		s.Damaged = s.journal.damaged
	}
	for _, p := range known {
		stale[strings.Join(p.Set, "\n")] = true
	}
	for i := range s.Points {
		p := &s.Points[i]
		c, err := s.config.With(p.Set...)
		if err != nil {
			p.Error = reason(err)
			continue
		}
		p.Key = c.Fingerprint()
		if found, ok := known[p.Key]; ok && found.Error == "" {
			found.Index, found.Set = p.Index, p.Set
			*p = found
			s.Reused++
			continue
		}
		if stale[strings.Join(p.Set, "\n")] {
			s.Stale++
		}
		s.todo = append(s.todo, pending{p, c})
	}
	return s.checkSize()
}

// run computes the points on all cores.
func (s *sweep) run(ctx context.Context) {
	next := make(chan pending)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(s.todo)) {
		workers.Go(func() {
			for p := range next {
				s.compute(ctx, p)
			}
		})
	}
	for _, p := range s.todo {
		if ctx.Err() != nil {
			break
		}
		next <- p
	}
	close(next)
	workers.Wait()
}

// compute predicts a point, unless the context ends.
func (s *sweep) compute(ctx context.Context, p pending) {
	found, err := s.predict(ctx, p)
	if ctx.Err() != nil {
		return
	}
	if *p.SweepPoint = found; err != nil {
		p.Error = reason(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err == nil && s.journal != nil && s.lost == nil {
		s.lost = s.journal.add(found)
	}
	s.done++
	if s.options.Progress != nil {
		s.options.Progress(s.done, len(s.todo))
	}
}

func (s *sweep) predict(ctx context.Context, p pending) (rankings.SweepPoint, error) {
	if ram.CheckTasks(p.config.Tasks()*float64(runtime.GOMAXPROCS(0))) != nil {
		s.alone.Lock()
		defer s.alone.Unlock()
	} else {
		s.alone.RLock()
		defer s.alone.RUnlock()
	}
	predicted, err := psim.Estimate(ctx, p.config)
	if err != nil {
		return *p.SweepPoint, err
	}
	return rankings.NewSweepPoint(p.Index, p.Set, p.Key, predicted.Result)
}

// reason prints an error in one line.
func reason(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// end writes the files of a finished sweep, and removes the journal, whose points
// they hold. That of one that was interrupted stays for the next call.
func (s *sweep) end(ctx context.Context) (*Swept, error) {
	for _, p := range s.Points {
		if p.Result.Kind != "" {
			s.Kept++
		}
	}
	switch {
	case s.journal == nil:
	case ctx.Err() != nil:
		s.Unsaved = errors.Join(s.lost, s.journal.leave())
	default:
		if s.Wrote, s.Unsaved = Save(ctx, s.Sweep, s.options.Folder); s.Unsaved == nil {
			s.Unsaved = s.journal.Remove()
		} else {
			s.journal.leave()
		}
	}
	return &s.Swept, ctx.Err()
}

// Save writes the files of a sweep into a folder, and returns their names. Its
// picture is the throughput where that is known of all points, and else the step time;
// there is none where nothing can be drawn.
func Save(ctx context.Context, s rankings.Sweep, folder string) (names []string, err error) {
	request := figures.Request{Key: "throughput.samples_per_s"}
	for _, p := range s.Points {
		if p.Error != "" {
			continue
		}
		request.Items = append(request.Items, figures.Item{Set: p.Set, Run: results.Run{Result: p.Result}})
		if p.Result.Throughput.Samples == 0 {
			request.Key = "step_time_s"
		}
	}
	kind, err := figures.Find("sweep")
	if err != nil {
		return nil, err
	}
	var pictures []files.File
	if draw, err := kind.Draw(request); err == nil {
		render := func(w io.Writer) error { return draw(w, picture.PNG) }
		pictures = append(pictures, files.File{Path: "sweep.png", Render: render})
	}
	return reports.SaveSweep(ctx, s, folder, pictures...)
}
