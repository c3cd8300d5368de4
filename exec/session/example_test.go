package session_test

import (
	"context"
	"fmt"

	"psim/exec/backend"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
)

// One configuration is predicted, run, compared and checked, on two devices that may
// share a core.
func Example() {
	c, _, err := session.Load("exec-mlp", 2, "model.layers=4", "model.hidden=16", "batch.global=8")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := &session.Session{Options: session.Options{Seed: 1, Measure: measure.Options{
		Devices: backend.Options{Backend: "go", Oversubscribe: true},
		Train:   train.Options{Warmup: 1, Steps: 2}, Repeats: 1, Checks: measure.CheckNames(),
	}}}
	if err := s.Run(context.Background(), c); err != nil {
		fmt.Println(err)
		return
	}
	predicted, measured := s.Main().Sides()
	fmt.Println(predicted.Result.Kind, "and", measured.Result.Kind, len(measured.Result.Steps), "steps")
	fmt.Println("of the same tasks:", predicted.Result.Tasks == measured.Result.Tasks)
	fmt.Println("checks passed:", s.Err() == nil)
	// Output:
	// predicted and measured 2 steps
	// of the same tasks: true
	// checks passed: true
}
