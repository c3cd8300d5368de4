package processes

import "time"

// gaveUp reports whether the others have given this process up, had it done nothing for
// that long.
func (w *World) gaveUp(d time.Duration) bool { return w.options.Stall > 0 && d >= w.options.Stall }

// stopped reports whether this process was stopped until a moment ago, so that the others
// may have given it up, and have said so.
func (w *World) stopped() bool {
	now := time.Since(w.began)
	woke := w.woke.Load()
	return w.gaveUp(now-time.Duration(w.ticked.Load())) || woke > 0 && now-time.Duration(woke) < found
}
