package figures_test

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"psim/reports/figures"
	"psim/reports/picture"
)

// words draws a figure of modes and prints its texts but for those of the vertical
// axis's numbers.
func words(kind, key string, view picture.View, modes ...string) {
	k, err := figures.Find(kind)
	if err != nil {
		panic(err)
	}
	request := figures.Request{Key: key, View: view}
	for _, word := range modes {
		run, err := predict(word)
		if err != nil {
			panic(err)
		}
		request.Items = append(request.Items, figures.Item{Label: word, Run: run})
	}
	var svg strings.Builder
	drawn, err := k.Draw(request)
	if err == nil {
		err = drawn(&svg, picture.SVG)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	var texts []string
	for _, m := range regexp.MustCompile(`>([^<>]*[a-z][^<>]*)</text>`).FindAllStringSubmatch(svg.String(), -1) {
		texts = append(texts, m[1])
	}
	fmt.Println(strings.Join(texts, " | "))
}

func ExampleFigureKinds() {
	for _, k := range figures.FigureKinds() {
		fmt.Printf("%s (%s): %s\n", k.Name, k.Takes, k.Draws)
	}
	// Output:
	// timeline (results with trace.csv): when every rank does what, a result below the other
	// memory (results): memory over time of one result; of several, what their fullest ranks hold at the peak
	// compare (two results with trace.csv, or one measured): two timelines and how far the second is from the first, or a measured one below its own prediction
	// time (results): the time of a step, or of an epoch where all results know one
	// throughput (results): samples or tokens per second, and what would be ideal
	// split-time (results): what a step is made of: computation, exposed communication, optimizer, idle
	// efficiency (results): throughput per device against that with the fewest devices
	// metric (a KEY and results): any number of the results, such as bubble.makespan
	// loss (measured results): the loss of every step
	// heatmap (a sweep, or results): a number of the results over two settings
	// sweep (a sweep, or results): a number of the results over a setting, a line for each value of the others
}

func ExampleFigureKind_Draw_time() {
	words("time", "", picture.View{}, "model=2", "pipeline=2")
	// Output:
	// model=2 | pipeline=2 | time of a step (s) | 27.0 s | 37.0 s | Step time: VGG16 without pooling, predicted on 2 CPU cores
}

func ExampleFigureKind_Draw_throughput() {
	words("throughput", "", picture.View{}, "ddp=1", "ddp=2", "ddp=4")
	// Output:
	// ddp=1 | ddp=2 | ddp=4 | samples per second | Throughput: VGG16, predicted | ideal: in proportion to the devices
}

func ExampleFigureKind_Draw_splitTime() {
	words("split-time", "", picture.View{}, "ddp=1", "ddp=2", "ddp=4")
	// Output:
	// ddp=1 | ddp=2 | ddp=4 | time of a step, averaged over the ranks (s) | 25.2 s | 26.5 s | 27.1 s | What a step is made of: VGG16, predicted | computation | exposed communication | optimizer
}

func ExampleFigureKind_Draw_efficiency() {
	words("efficiency", "", picture.View{}, "fsdp=2", "fsdp=4")
	// Output:
	// fsdp=2 | fsdp=4 | throughput per device (%) | Efficiency: VGG16, FSDP, predicted | ideal: as much as on the fewest devices
}

func ExampleFigureKind_Draw_metric() {
	words("metric", "bubble.makespan", picture.View{}, "pipeline=2", "pipeline=3")
	// Output:
	// pipeline=2 | pipeline=3 | bubble (% of makespan) | Bubble: VGG16 without pooling, GPipe, predicted
}

// A prediction trains nothing; what psim exec has saved has losses.
func ExampleFigureKind_Draw_loss() {
	words("loss", "", picture.View{}, "ddp=2")
	// Output:
	// ddp=2: is a prediction, which trains nothing; psim exec measures a loss
}

func ExampleFigureKind_Draw_memory() {
	words("memory", "", picture.View{}, "ddp=4", "fsdp=4")
	// Output:
	// ddp=4 | fsdp=4 | memory at the peak (GB) | Memory of the fullest rank: VGG16, 4 replicas, predicted on 4 CPU cores | parameters | gradients | activations
}

func ExampleFigureKind_Draw_timeline() {
	words("timeline", "", picture.View{Ranks: []int{0, 1}, To: 5 * time.Second}, "pipeline=3")
	// Output:
	// time (s) | rank 0 | rank 1 | 991 ms | 991 ms | 2.31 s | VGG16 without pooling, GPipe, 3 stages × 2 microbatches, predicted on 3 CPU cores | step 31.8 s  ·  bubble 59.3 % | forward | activations sent | not computing | 1 other rank is not shown
}

func ExampleFigureKind_Draw_compare() {
	words("compare", "", picture.View{}, "model=2", "pipeline=2")
	// Output:
	// time (s) | rank 0 | rank 1 | rank 0 | rank 1 | A:  Naive model parallelism, 2 stages × 1 microbatch  ·  step 27.0 s  ·  bubble 50.0 % | 5.20 s | 19.5 s | B:  GPipe, 2 stages × 2 microbatches  ·  step 37.0 s  ·  bubble 47.5 % | 3.30 s | 3.30 s | 14.2 s | 14.2 s | VGG16 without pooling, predicted on 2 CPU cores | B against A: step +36.9 %, bubble −2.5 points | forward | backward | activations sent | gradients sent | optimizer | not computing
}

func ExampleFigureKind_Draw_heatmap() {
	words("heatmap", "throughput", picture.View{}, "ddp=2", "ddp=4", "fsdp=2", "fsdp=4")
	// Output:
	// data-parallel replicas | name | vgg16-cpu-ddp | vgg16-cpu-fsdp | Samples per second: VGG16, predicted
}

func ExampleFigureKind_Draw_sweep() {
	words("sweep", "", picture.View{}, "ddp=1", "ddp=2", "ddp=4")
	// Output:
	// data-parallel replicas (log scale) | step time (s) | Step time: VGG16, predicted
}
