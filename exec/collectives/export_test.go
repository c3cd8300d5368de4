package collectives

import (
	"context"

	"psim/exec/backend"
	"psim/exec/run"
)

// WrongWithout runs a collective without some of its tasks, and counts the wrong numbers.
func (b Benchmark) WrongWithout(
	ctx context.Context, devices []*backend.LocalDevice, without func(i int32) bool,
) (int, error) {
	ranks, closeAll := newRanks(devices)
	defer closeAll()
	wrong, _, err := b.runOnce(ctx, ranks, func(ctx context.Context, c *Mover, _ run.Options) error {
		for i := range int32(c.Graph.Len()) {
			if without(int32(i / 2)) {
				continue
			}
			if err := c.Do(ctx, int32(i)); err != nil {
				return err
			}
		}
		return nil
	})
	return wrong, err
}
