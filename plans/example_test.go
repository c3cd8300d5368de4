package plans_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"psim"
	"psim/plans"
	"psim/reports"
)

// The best plan for a network on four devices, and the picture of all.
func ExampleSchedules() {
	ctx := context.Background()
	c, err := psim.Load("gpipe", "batch.global=8")
	if err != nil {
		log.Fatal(err)
	}
	found, err := plans.Schedules(ctx, c, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := found.Plans[0]
	fmt.Printf("the best takes %.0f ms: %s\n", 1e3*best.StepTime, strings.Join(best.Set, " "))
	folder, err := os.MkdirTemp("", "psim")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	names, err := found.Save(ctx, reports.PlansFolder(folder, 1), "gpipe", 1)
	fmt.Println(strings.Join(names, ", "), err)
	// Output:
	// the best takes 20 ms: schedule.name=auto-v schedule.microbatches=4
	// pareto.png, plan-1.toml, plans.json <nil>
}

// The best plan for eight devices, whatever the configuration has for four.
func ExampleSearch() {
	c, err := psim.Load("gpipe")
	if err != nil {
		log.Fatal(err)
	}
	query := plans.Query{Devices: 8, Margin: 0.1, Schedules: []string{"ddp", "1f1b"}, Fix: []string{"parallel.zero"}}
	found, err := plans.Search(context.Background(), c, query, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := found.Plans[0]
	fmt.Printf("%d plans; the best: %.1f ms with %d replicas of %d stages, in microbatches of %d\n",
		found.Space, best.StepTime*1e3, best.Plan.Data, best.Plan.Stages, best.Plan.Micro)
	// Output:
	// 36 plans; the best: 27.5 ms with 8 replicas of 1 stages, in microbatches of 4
}

// Why the best plan wins, and what would fit where none does.
func ExampleQuery_Remedies() {
	ctx := context.Background()
	c, err := psim.Load("gpipe", "machine.compute.memory=1GB")
	if err != nil {
		log.Fatal(err)
	}
	query := plans.Query{Devices: 2, Margin: 0.3, Schedules: []string{"ddp", "1f1b"}}
	found, err := plans.Search(ctx, c, query, nil)
	if err != nil {
		log.Fatal(err)
	}
	remedies, err := query.Remedies(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range remedies {
		fmt.Printf("%d plans fit; one with %s does\n", len(found.Plans), strings.Join(r.Flags, " "))
	}
	// Output:
	// 0 plans fit; one with --devices 8 does
}
