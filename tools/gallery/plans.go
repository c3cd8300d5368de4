package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	lib "psim"
	"psim/reports/picture"
	"psim/results"
)

// A plan is a published plan (configs/plans) with a timeline in docs/models.md: the beginning
// of its step, short enough that tasks can be distinguished.
type plan struct {
	name  string
	to    time.Duration // the window begins with the step
	ranks []int         // nil for the ranks of a replica
}

// plans lists the plans that are drawn.
func plans() []plan {
	return []plan{
		{"deepseek-v3", 4 * time.Second, nil},
		{"llama3-405b", 3 * time.Second, nil},
		{"qwen3-235b", time.Second, nil},
		{"gpt-oss-120b", 250 * time.Millisecond, []int{0, 1, 2, 3}},
	}
}

// drawPlans writes the pictures of all plans into a folder.
func drawPlans(folder string) error {
	for _, p := range plans() {
		if err := p.draw(filepath.Join(folder, p.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// draw predicts the example and writes its picture.
func (p plan) draw(path string) error {
	c, err := lib.Load("plans/" + p.name)
	if err != nil {
		return err
	}
	predicted, err := lib.Predict(context.Background(), c)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	view := picture.View{To: p.to, Ranks: p.ranks}
	return view.Timelines(file, picture.PNG, results.Run{Result: predicted.Result, Trace: predicted.Trace})
}
