package coursefile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"psim/courses/modes"
	"psim/results"
)

// The lines of homework 4's scripts: an epoch of a rank, or of the single process of
// run_pipeline.py, and its loss; the mean of the epochs at the end; the steps of an epoch in
// the progress bar; and the command, if it is in the log.
var (
	epochForm = regexp.MustCompile(`Epoch (\d{1,6})(?: on Rank (\d{1,5}))?: ` +
		`Training Time = ([0-9.eE+-]+), Tokens_per_sec = ([0-9.eE+-]+)`)
	meanForm = regexp.MustCompile(`(?:Rank (\d{1,5}) )?[Tt]raining time: avg: ?([0-9.eE+-]+), ` +
		`std: ?([0-9.eE+-]+), *\s*tokens_per_second: avg: ?([0-9.eE+-]+)`)
	lossForm    = regexp.MustCompile(`Epoch (\d{1,6})(?: on Rank (\d{1,5}))?: Validation Loss = ([0-9.eE+-]+)`)
	barForm     = regexp.MustCompile(`Training \(epoch \d+ / \d+\):.*\| (\d{1,9})/(\d{1,9}) \[`)
	commandForm = regexp.MustCompile(`run_(data_parallel|pipeline)\.py(.*)`)
	optionForm  = regexp.MustCompile(`--(world_size|batch_size|n_chunk|n_epochs|model_parallel_mode)[= ]+['"]?(\w+)`)
)

// A section is the part of a log that belongs to one command.
type section struct {
	homework
	lines []epochLine
	means map[int][3]float64 // of a rank: the mean of epochs, its deviation, tokens per second
	world int                // ranks of the command; 0 if it does not say
}

// readLog reads what the scripts have printed, for one run or, if the commands are in the
// log as well, for several. The name of a log may say which mode it is of.
func readLog(name string, data []byte) (list []homework, err error) {
	for _, s := range sections(strings.ReplaceAll(string(data), "\r", "\n")) {
		if len(s.lines) == 0 && len(s.means) == 0 {
			continue
		}
		h, err := s.run(name)
		if err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil, errors.New("holds no line of a program whose logs are known: of Megatron-LM, torchtitan, " +
			"DeepSpeed or transformers' Trainer (docs/logs.md), or of homework 4's scripts, such as " +
			`"Epoch 0 on Rank 0: Training Time = 20.6, Tokens_per_sec = 217800.3"`)
	}
	return list, nil
}

// sections divides a log by its commands.
func sections(text string) []section {
	list := []section{{means: map[int][3]float64{}}}
	for line := range strings.Lines(text) {
		if m := commandForm.FindStringSubmatch(line); m != nil {
			s := section{means: map[int][3]float64{}}
			if m[1] == "data_parallel" {
				s.Mode = named("ddp")
			}
			s.options(m[2])
			list = append(list, s)
		}
		list[len(list)-1].read(line)
	}
	return list
}

// named returns the mode with the given name, such as model or model_parallel.
func named(name string) modes.Mode {
	m, _ := modes.Find(strings.TrimSuffix(name, "_parallel"))
	return m
}

// options reads the options of a command.
func (s *section) options(text string) {
	for _, m := range optionForm.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[2])
		n = min(max(n, 0), 1<<30)
		switch m[1] {
		case "world_size":
			s.world = n
		case "batch_size":
			s.batch = float64(n)
		case "n_epochs":
			s.number = n
		case "n_chunk":
			s.chunks = n
		default:
			s.Mode = named(m[2])
		}
	}
}

// read notes what a line of the log says.
func (s *section) read(line string) {
	number := func(text string) float64 { x, _ := strconv.ParseFloat(text, 64); return x }
	rank := func(text string) int {
		if text != "" {
			s.Mode = named("ddp")
		}
		n, _ := strconv.Atoi(text)
		return n
	}
	if m := epochForm.FindStringSubmatch(line); m != nil {
		index, _ := strconv.Atoi(m[1])
		s.lines = append(s.lines, epochLine{
			rank: rank(m[2]), index: index, seconds: number(m[3]), tokens: number(m[4]),
		})
	}
	if m := lossForm.FindStringSubmatch(line); m != nil {
		index, _ := strconv.Atoi(m[1])
		loss, of := number(m[3]), rank(m[2])
		for i, l := range s.lines {
			if l.index == index && l.rank == of {
				s.lines[i].loss = &loss
			}
		}
	}
	if m := meanForm.FindStringSubmatch(line); m != nil {
		s.means[rank(m[1])] = [3]float64{number(m[2]), number(m[3]), number(m[4])}
	}
	if m := barForm.FindStringSubmatch(line); m != nil && m[1] == m[2] {
		s.steps = number(m[1])
	}
}

// run makes the homework of a section: from its epochs, or else from their means.
func (s section) run(name string) (homework, error) {
	h := s.homework
	for _, guess := range []string{"pipeline", "model"} {
		if h.Name == "" && strings.Contains(strings.ToLower(name), guess) {
			h.Mode = named(guess)
		}
	}
	if h.Name == "" {
		return h, fmt.Errorf("does not say whether the run was model or pipeline parallel; " +
			"name it model_parallel.log or pipeline_parallel.log")
	}
	h.workers = 2
	if len(s.lines) > 0 {
		return h, cmp.Or(h.take(s.lines), s.complete(h))
	}
	for rank := range len(s.means) {
		m, there := s.means[rank]
		if !there || !(m[0] > 0 && m[0] <= longest && m[1] >= 0 && m[1] <= longest) || !(m[2] >= 0 && m[2] <= 1e300) {
			return h, fmt.Errorf("rank %d: its mean time of an epoch is missing or not above 0; "+
				"there must be a line of each of %d ranks", rank, len(s.means))
		}
		h.ranks = append(h.ranks, results.RankEpoch{Rank: rank, Time: m[0], TimeStd: m[1]})
		h.tokens += m[2]
	}
	if h.Data {
		h.workers = len(s.means)
	}
	return h, s.complete(h)
}

// complete refuses a log in which ranks of its command are missing.
func (s section) complete(h homework) error {
	if h.Data && s.world > h.workers {
		return fmt.Errorf("the command has --world_size %d, and there are lines of %d of these ranks; "+
			"there must be one of each", s.world, h.workers)
	}
	return nil
}
