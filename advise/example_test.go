package advise_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"psim"
	"psim/advise"
)

// What one change each would give.
func ExampleWhatIf() {
	ctx := context.Background()
	c, err := psim.Load("course-timeline")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	list, _, err := advise.WhatIf(ctx, p, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := list[0]
	fmt.Printf("%.1f s with %s, instead of %.1f s\n", best.StepTime, strings.Join(best.Set, " "), p.Result.StepTime)
	// Output:
	// 40.9 s with schedule.name=1f1b, instead of 43.7 s
}

// What keeps a network out of a small device's memory, and what would help.
func ExampleFit() {
	ctx := context.Background()
	c, err := psim.Load("gpipe", "machine.compute.memory=6GB")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	advise.Fit(ctx, p)
	fmt.Println("fits:", p.Result.FitsMemory)
	for _, remedy := range p.Result.WouldFit {
		fmt.Printf("with %s: %.1f GB\n", strings.Join(remedy.Set, " "), float64(remedy.PeakMemory)/1e9)
	}
	// Output:
	// fits: false
	// with schedule.name=1f1b: 2.7 GB
}
