package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Since returns a time by this process's clock, which a Clock relates to the first process's.
func (w *World) Since(t time.Time) time.Duration { return t.Sub(w.began) }

// A Clock relates a process's clock to the first process's at one moment.
type Clock struct {
	At       time.Duration // when it was measured, by the process's own clock
	Offset   time.Duration // added to the process's clock, it gives the first process's
	Residual time.Duration // how far the offset may be off: half the round trip
}

// Aligned returns what the first process's clock shows when this one's shows t. The clocks were
// measured before and after; in between, the offset changes evenly.
func Aligned(before, after Clock, t time.Duration) time.Duration {
	offset := before.Offset
	if d := after.At - before.At; d > 0 {
		offset += time.Duration(float64(after.Offset-before.Offset) * float64(t-before.At) / float64(d))
	}
	return t + offset
}

// clockQuestions counts how often a process asks for the first's time. The fastest answer
// counts.
const clockQuestions = 64

// Clock measures this process's clock against the first's. All processes call it, with a key
// that is used once.
func (w *World) Clock(ctx context.Context, key string) (c Clock, err error) {
	if w.Rank > 0 {
		return w.askTime(ctx, key)
	}
	for k := 1; k < w.Size; k++ {
		for i := range clockQuestions {
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

// askTime asks the first process for its time and returns the best answer.
func (w *World) askTime(ctx context.Context, key string) (best Clock, err error) {
	for i := range clockQuestions {
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
