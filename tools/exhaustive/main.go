// Command exhaustive predicts every plan of some small spaces one by one, and compares the
// best with the plan that psim search finds. It prints a table, and fails if the two differ.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"psim"
	"psim/configs"
	"psim/internal/units"
	"psim/plans"
	"psim/results/rankings"
)

// A space is a training, and the values of the settings that its plans may have.
type space struct {
	name, config string
	devices      int
	vary         []rankings.Variation
}

func spaces() []space {
	const folder = "tools/exhaustive/testdata/"
	vary := func(key, values string) rankings.Variation {
		return rankings.Variation{Key: key, Values: strings.Split(values, ",")}
	}
	return []space{
		{"Llama 3 70B on 64 H100", "llama3-70b", 64, []rankings.Variation{
			vary("parallel.tensor", "4,8"), vary("schedule.stages", "2,4,8"), vary("batch.micro", "1,2"),
			vary("schedule.name", "1f1b,interleaved-1f1b,zb-h1"), vary("schedule.virtual_stages", "1,2,5"),
			vary("train.recompute", "none,full"), vary("parallel.zero", "0,1"), vary("parallel.sequence", "false,true"),
			vary("parallel.context", "1,2"),
		}},
		{"GPT-3 175B on 1,024 A100", folder + "gpt3-175b.toml", 1024, []rankings.Variation{
			vary("parallel.tensor", "8"), vary("schedule.stages", "8,16"), vary("batch.micro", "1,2"),
			vary("schedule.name", "1f1b,interleaved-1f1b"), vary("schedule.virtual_stages", "1,2"),
			vary("train.recompute", "none,selective,full"), vary("parallel.zero", "0,1"),
			vary("parallel.sequence", "true"),
		}},
		{"Llama 3 8B, FSDP, on 16 H100", folder + "llama3-8b.toml", 16, []rankings.Variation{
			vary("parallel.tensor", "1"), vary("schedule.stages", "1"), vary("batch.micro", "1,2,4,8"),
			vary("schedule.name", "ddp"), vary("schedule.virtual_stages", "1"),
			vary("train.recompute", "none,full"), vary("parallel.zero", "0,1,2,3"), vary("parallel.sequence", "false"),
			vary("parallel.context", "1,2"),
		}},
		{"Mixtral 8x7B on 32 A100", folder + "mixtral.toml", 32, []rankings.Variation{
			vary("parallel.tensor", "2,4,8"), vary("schedule.stages", "1,2,4,8"), vary("batch.micro", "1,2"),
			vary("schedule.name", "ddp,1f1b,interleaved-1f1b"), vary("schedule.virtual_stages", "1,2"),
			vary("train.recompute", "none,full"), vary("parallel.zero", "0,1"), vary("parallel.sequence", "true"),
			vary("parallel.expert", "1,2,4,8"), vary("parallel.expert_tensor", "0,1"),
		}},
	}
}

// margin is the share of the memory that plans leave free.
const margin = 0.1

// plan makes the settings of one combination of values: replicas take the rest of the
// devices. It is not ok if the devices do not divide evenly, or if the schedule needs another
// number of stages.
func (s space) plan(c *configs.Config, values []string) (sets []string, ok bool) {
	number := map[string]int{}
	schedule := ""
	for i, v := range s.vary {
		sets = append(sets, v.Key+"="+values[i])
		number[v.Key], _ = strconv.Atoi(values[i])
		if v.Key == "schedule.name" {
			schedule = values[i]
		}
	}
	group := number["parallel.tensor"] * number["schedule.stages"] * max(1, number["parallel.context"])
	if s.devices%group != 0 || (schedule == "ddp") != (number["schedule.stages"] == 1) {
		return nil, false
	}
	sets = append(sets,
		fmt.Sprintf("parallel.data=%d", s.devices/group), fmt.Sprintf("machine.memory_margin=%v", margin))
	if c.Defined("schedule.microbatches") {
		share := int(c.Batch.Global) * group / s.devices
		sets = append(sets, fmt.Sprintf("schedule.microbatches=%d", share/number["batch.micro"]))
	}
	if c.Schedule.Partition.Layers != nil {
		sets = append(sets, "schedule.partition=balanced")
	}
	return sets, true
}

// loop predicts every possible combination. It returns the shortest step that fits, with its
// settings, and the number of combinations.
func (s space) loop(ctx context.Context, c *configs.Config) (best float64, sets []string, count int, err error) {
	all := [][]string{nil}
	for _, v := range s.vary {
		var next [][]string
		for _, before := range all {
			for _, value := range v.Values {
				next = append(next, append(slices.Clone(before), value))
			}
		}
		all = next
	}
	for _, values := range all {
		plan, ok := s.plan(c, values)
		if !ok {
			continue
		}
		one, err := c.With(plan...)
		if err != nil {
			continue
		}
		p, err := psim.Predict(ctx, one)
		if ctx.Err() != nil {
			return 0, nil, 0, ctx.Err()
		}
		if err != nil { // the combination is impossible
			continue
		}
		if count++; p.Result.Fits() && (sets == nil || p.Result.StepTime < best) {
			best, sets = p.Result.StepTime, plan
		}
	}
	return best, sets, count, nil
}

// compare writes a line of the table, and reports whether loop and search agree.
func (s space) compare(ctx context.Context) (line string, same bool, err error) {
	c, err := psim.Load(s.config)
	if err != nil {
		return "", false, err
	}
	query := plans.Query{Devices: s.devices, Trainer: "any", Vary: s.vary, Margin: margin, Rows: 1}
	found, err := plans.Search(ctx, c, query, nil)
	if err != nil {
		return "", false, err
	}
	best, sets, count, err := s.loop(ctx, c)
	if err != nil || sets == nil || len(found.Plans) == 0 {
		return "", false, fmt.Errorf("%s: nothing fits, or %w", s.name, err)
	}
	plan := found.Plans[0]
	same = plan.StepTime == best
	for _, set := range plan.Set {
		key, _, _ := strings.Cut(set, "=")
		looped := slices.ContainsFunc(sets, func(other string) bool { return strings.HasPrefix(other, key+"=") })
		same = same && (!looped || slices.Contains(sets, set))
	}
	return fmt.Sprintf("| %s | %d | %s | %d of %d | %s | %s |", s.name, count, units.FormatSeconds(best),
		found.Evaluated, found.Space, units.FormatSeconds(plan.StepTime), planText(plan.Plan)), same, nil
}

// planText describes how a plan divides the work.
func planText(p rankings.PlanShape) string {
	shared := ""
	if p.Context > 1 {
		shared += fmt.Sprintf(" C%d", p.Context)
	}
	if p.Expert > 1 {
		shared += fmt.Sprintf(" E%d", p.Expert)
	}
	return fmt.Sprintf("T%d P%d V%d D%d%s, micro %d, %s, recompute %s, ZeRO %d", p.Tensor, p.Stages,
		p.VirtualStages, p.Data, shared, p.Micro, p.Schedule, p.Recompute, p.Zero)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Println("| training | plans predicted one by one | the best | simulated by the search | the best | its plan |")
	fmt.Println("|---|--:|--:|--:|--:|---|")
	for _, s := range spaces() {
		line, same, err := s.compare(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line)
		if !same {
			log.Fatalf("%s: the search and the loop differ", s.name)
		}
	}
}
