package processes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Gather returns what every process gives, at the first; nil elsewhere.
func (w *World) Gather(ctx context.Context, key string, data []byte) ([][]byte, error) {
	if w.Rank > 0 {
		return nil, w.Send(0, key, data)
	}
	all := make([][]byte, w.Size)
	all[0] = data
	for k := 1; k < w.Size; k++ {
		var err error
		if all[k], err = w.Receive(ctx, k, key); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Broadcast returns what the first gives.
func (w *World) Broadcast(ctx context.Context, key string, data []byte) ([]byte, error) {
	if w.Rank > 0 {
		return w.Receive(ctx, 0, key)
	}
	for k := 1; k < w.Size; k++ {
		if err := w.Send(k, key, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// Barrier returns when all processes have called it with that key.
func (w *World) Barrier(ctx context.Context, key string) error {
	if _, err := w.Gather(ctx, key, nil); err != nil {
		return err
	}
	_, err := w.Broadcast(ctx, key, nil)
	return err
}

// Since is a time by this process's clock for runs, which Clocks relates to the
// first's.
func (w *World) Since(t time.Time) time.Duration { return t.Sub(w.began) }

// A Clock relates a process's clock to the first's at one moment.
type Clock struct {
	At       time.Duration // when it was measured, by the process's own clock
	Offset   time.Duration // is added to that for the first's
	Residual time.Duration // by how much the offset may be wrong: half the round trip
}

// Aligned is what the first's clock shows when this process's shows t, by clocks that
// were measured before and after, between which it drifts evenly.
func Aligned(before, after Clock, t time.Duration) time.Duration {
	offset := before.Offset
	if d := after.At - before.At; d > 0 {
		offset += time.Duration(float64(after.Offset-before.Offset) * float64(t-before.At) / float64(d))
	}
	return t + offset
}

// questions bounds how often a process asks for the first's time; the answer that took
// the least counts.
const questions = 64

// Clock measures this process's clock against the first's. All processes call it, with
// a key of its own.
func (w *World) Clock(ctx context.Context, key string) (c Clock, err error) {
	if w.Rank > 0 {
		return w.askTime(ctx, key)
	}
	for k := 1; k < w.Size; k++ {
		for i := range questions {
			name := fmt.Sprint(key, " question ", i)
			if _, err := w.Receive(ctx, k, name); err != nil {
				return c, err
			}
			now := binary.AppendVarint(nil, int64(w.Since(time.Now())))
			if err := w.Send(k, name, now); err != nil {
				return c, err
			}
		}
	}
	return Clock{At: w.Since(time.Now())}, nil
}

func (w *World) askTime(ctx context.Context, key string) (best Clock, err error) {
	for i := range questions {
		name := fmt.Sprint(key, " question ", i)
		asked := w.Since(time.Now())
		if err := w.Send(0, name, nil); err != nil {
			return best, err
		}
		answer, err := w.Receive(ctx, 0, name)
		if err != nil {
			return best, err
		}
		told := w.Since(time.Now())
		theirs, n := binary.Varint(answer)
		if n <= 0 {
			return best, errors.New("the first process has told no time")
		}
		if half := (told - asked) / 2; i == 0 || half < best.Residual {
			best = Clock{At: asked + half, Offset: time.Duration(theirs) - asked - half, Residual: half}
		}
	}
	return best, nil
}
