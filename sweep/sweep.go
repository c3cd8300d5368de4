// Package sweep predicts a configuration with every combination of the values of some
// settings: the points of a sweep. [Run] computes them on all cores and keeps finished
// points in a journal, so that an interrupted sweep goes on from there. A sweep may be
// split into shards on several machines, whose folders [Merge] joins. [Save] writes the
// files.
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

// Options says what a sweep varies, and where it keeps its results.
type Options struct {
	Vary  []rankings.Variation
	Shard rankings.Shard // the zero value is all points
	// Folder is where the files go, "" for none. Points that an earlier sweep of the
	// same configurations has left there are not computed again.
	Folder string
	// Overwrite says that files there are replaced, whoever wrote them.
	Overwrite bool
	// Version is the version of psim. Points of another version are computed again.
	Version string
	// Progress, which may be nil, is called with the number of points computed so far and
	// the number of points to compute.
	Progress func(done, of int)
}

// folder returns the folder for the files of the sweep.
func (o Options) folder() files.Folder {
	to := reports.SweepFolder(o.Folder)
	to.Overwrite = o.Overwrite
	return to
}

// An Outcome is a finished or interrupted sweep.
type Outcome struct {
	rankings.Sweep
	// Reused counts the points that an earlier sweep had computed, and Stale those that it
	// had computed with another configuration or version of psim.
	Reused, Stale int
	// Damaged counts the lines of an interrupted sweep that cannot be read; their points
	// are computed again.
	Damaged int
	// Kept counts the points that a later call need not compute.
	Kept int
	// Wrote names the files in the folder. If it is empty, Unsaved is the reason.
	Wrote   []string
	Unsaved error
}

// Check refuses what Run would refuse before it computes a point.
func Check(o Options) error {
	return o.check()
}

// Run predicts a configuration with every combination of the values of some settings, on
// all cores. The last setting changes first. An illegal combination is a point with an
// error; a value that no configuration can have is an error of Run. If a sweep is killed
// or interrupted, its finished points stay in the folder, and the same call goes on from
// there. If the context ends, Run returns what it has found so far along with the
// context's error.
func Run(ctx context.Context, c *configs.Config, o Options) (*Outcome, error) {
	s := &sweep{config: c, options: o}
	if err := s.listPoints(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	s.run(ctx)
	return s.end(ctx)
}

// sweep holds the state of one Run.
type sweep struct {
	Outcome
	config     *configs.Config
	options    Options
	todo       []pending
	journal    *journal     // nil for none
	large      sync.RWMutex // write-locked by points that are too large to run with others
	mutex      sync.Mutex   // of the journal and the fields below
	done       int
	journalErr error // the first error of the journal
}

// pending is a point that is to be computed, with its configuration.
type pending struct {
	*rankings.SweepPoint
	config *configs.Config
}

// open opens the journal, takes over finished points, and lists the others.
func (s *sweep) open() error {
	known, stale := map[string]rankings.SweepPoint{}, map[string]bool{}
	if s.options.Folder != "" {
		var err error
		if s.journal, known, err = openJournal(s.options.folder(), s.options.Version); err != nil {
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
			p.Error = firstLine(err)
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

// compute predicts a point, and notes it unless the context has ended.
func (s *sweep) compute(ctx context.Context, p pending) {
	found, err := s.predict(ctx, p)
	if ctx.Err() != nil {
		return
	}
	if *p.SweepPoint = found; err != nil {
		p.Error = firstLine(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err == nil && s.journal != nil && s.journalErr == nil {
		s.journalErr = s.journal.add(found)
	}
	s.done++
	if s.options.Progress != nil {
		s.options.Progress(s.done, len(s.todo))
	}
}

func (s *sweep) predict(ctx context.Context, p pending) (rankings.SweepPoint, error) {
	if ram.CheckTasks(p.config.Tasks()*float64(runtime.GOMAXPROCS(0))) != nil {
		s.large.Lock()
		defer s.large.Unlock()
	} else {
		s.large.RLock()
		defer s.large.RUnlock()
	}
	predicted, err := psim.Estimate(ctx, p.config)
	if err != nil {
		return *p.SweepPoint, err
	}
	return rankings.NewSweepPoint(p.Index, p.Set, p.Key, predicted.Result)
}

// firstLine returns the first line of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// end writes the files of a finished sweep and removes the journal, whose points are now
// in the files. The journal of an interrupted sweep stays for the next call.
func (s *sweep) end(ctx context.Context) (*Outcome, error) {
	for _, p := range s.Points {
		if p.Result.Kind != "" {
			s.Kept++
		}
	}
	switch {
	case s.journal == nil:
	case ctx.Err() != nil:
		s.Unsaved = errors.Join(s.journalErr, s.journal.closeForLater())
	default:
		if s.Wrote, s.Unsaved = Save(ctx, s.Sweep, s.options.folder()); s.Unsaved == nil {
			s.Unsaved = s.journal.Remove()
		} else {
			s.journal.closeForLater()
		}
	}
	return &s.Outcome, ctx.Err()
}

// Save writes the files of a sweep into a folder, and returns their names. The picture
// shows the throughput by which the text compares points if it is known for all of them, otherwise the
// step time; it is omitted if there is nothing to draw.
func Save(ctx context.Context, s rankings.Sweep, to files.Folder) (names []string, err error) {
	request := figures.Request{Key: reports.SweepKey(s.Points)}
	for _, p := range s.Points {
		if p.Error == "" {
			request.Items = append(request.Items, figures.Item{Set: p.Set, Run: results.Run{Result: p.Result}})
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
	return reports.SaveSweep(ctx, s, to, pictures...)
}
