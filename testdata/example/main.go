// Command example uses psim as a library: it predicts a step, searches for a better
// plan, and draws both.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"psim"
	"psim/plans"
	"psim/reports"
	"psim/reports/picture"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	c, err := psim.Load("gpipe", "batch.global=8")
	if err != nil {
		return err
	}
	before, err := psim.Predict(ctx, c)
	if err != nil {
		return err
	}
	found, err := plans.Schedules(ctx, c, nil)
	if err != nil {
		return err
	}
	if c, err = c.With(found.Plans[0].Settings...); err != nil {
		return err
	}
	after, err := psim.Predict(ctx, c)
	if err != nil {
		return err
	}
	difference := psim.Compare(before.Run(), after.Run())
	fmt.Printf("%s instead of %s: step time %+.1f %%\n", after.Result.Schedule, before.Result.Schedule, 100*difference.StepTimeDifference)
	file, err := os.Create("both.svg")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := picture.Timelines(file, picture.SVG, before.Run(), after.Run()); err != nil {
		return err
	}
	names, err := found.Save(ctx, reports.PlansFolder("plans", 20), "gpipe", 20)
	fmt.Println(names)
	return err
}
