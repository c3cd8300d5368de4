package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that is stopped, and is interrupted when it continues, ends with the notice that
// the others gave it up, even if it reads that late.
func TestInterruptedAfterStop(t *testing.T) {
	given := errors.New("the others gave it up")
	for _, c := range []struct {
		stall, since time.Duration // since the last tick
		want         error
	}{
		{time.Second, time.Minute, given},
		{time.Second, 0, context.Canceled},
		{0, time.Minute, context.Canceled}, // without a limit
	} {
		w := &World{began: time.Now().Add(-time.Hour), options: Options{Stall: c.stall}, control: &mesh{},
			wire: &mesh{}, ended: make(chan struct{})}
		w.lastTick.Store(int64(time.Hour - c.since))
		interrupted, interrupt := context.WithCancel(context.Background())
		ctx, done := w.Context(interrupted)
		interrupt()
		timer := time.AfterFunc(3*causeWait, func() { w.fail(given, notice{}) })
		<-ctx.Done()
		timer.Stop()
		require.Equal(t, c.want, context.Cause(ctx), "%+v", c)
		done()
	}
}
