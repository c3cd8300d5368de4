package processes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that was stopped and is interrupted as it goes on hears first that the others
// have given it up, however late it reads that.
func TestInterruptedAfterStop(t *testing.T) {
	given := errors.New("the others gave it up")
	for _, c := range []struct {
		stall, since time.Duration // since it last counted
		want         error
	}{
		{time.Second, time.Minute, given},
		{time.Second, 0, context.Canceled},
		{0, time.Minute, context.Canceled}, // nobody gives up
	} {
		w := &World{began: time.Now().Add(-time.Hour), options: Options{Stall: c.stall}, control: &mesh{}, wire: &mesh{}, ended: make(chan struct{})}
		w.ticked.Store(int64(time.Hour - c.since))
		interrupted, interrupt := context.WithCancel(context.Background())
		ctx, done := w.Context(interrupted)
		interrupt()
		timer := time.AfterFunc(3*settle, func() { w.fail(given, notice{}) })
		<-ctx.Done()
		timer.Stop()
		require.Equal(t, c.want, context.Cause(ctx), "%+v", c)
		done()
	}
}
