package coursefile

import (
	"fmt"

	"psim/results"
)

// gpipeKey is of a row that psim writes, and run_benchmarks.py does not.
const gpipeKey = "pipeline_parallel.gpipe"

// readSummary reads the summary of run_benchmarks.py: a homework for each row.
func readSummary(data []byte) (list []homework, err error) {
	var s summary
	if err := decode(data, &s); err != nil {
		return nil, err
	}
	if s.Config.Dropped < 0 || s.Config.Epochs < s.Config.Dropped || s.Config.Epochs > 1<<30 {
		return nil, fmt.Errorf("config.epochs is %d and warmup_epochs_dropped %d; "+
			"the second must be 0 or more and below the first", s.Config.Epochs, s.Config.Dropped)
	}
	if s.Config.SplitBatch < 0 || s.Config.SplitBatch > 1<<30 || s.Config.Chunks < 0 || s.Config.Chunks > 1<<20 {
		return nil, fmt.Errorf("config.pipeline_batch_size is %d and pipeline_n_chunk %d; "+
			"they must be a batch and the microbatches of it", s.Config.SplitBatch, s.Config.Chunks)
	}
	for _, x := range []struct {
		key     string
		row     *row
		mode    string
		workers int
	}{
		{"data_parallel.single_gpu", s.Data.One, "ddp", 1},
		{"data_parallel.two_gpu", s.Data.Two, "ddp", 2},
		{"pipeline_parallel.model_parallel", s.Split.Model, "model", 2},
		{"pipeline_parallel.pipeline_parallel", s.Split.Pipeline, "pipeline", 2},
		{gpipeKey, s.Split.gpipeRow(), "pipeline", 2},
	} {
		if x.row == nil {
			continue
		}
		t, std, tokens := known(x.row.Time), known(x.row.TimeStd), known(x.row.Tokens)
		if !(t > 0 && t <= longest) || !(std >= 0 && std <= longest) || !(tokens >= 0 && tokens <= 1e300) {
			return nil, fmt.Errorf("%s: time_mean is %g, time_std %g and tok_mean %g; they must be the seconds of an "+
				"epoch, above 0, their deviation, and tokens per second", x.key, t, std, tokens)
		}
		h := homework{Mode: named(x.mode), workers: x.workers, tokens: tokens, gpipe: x.key == gpipeKey}
		h.number, h.dropped = s.Config.Epochs-s.Config.Dropped, s.Config.Dropped
		h.ranks = []results.RankEpoch{{Time: t, TimeStd: std}} // the mean of the ranks
		if !h.Data {
			h.batch, h.chunks = float64(s.Config.SplitBatch), s.Config.Chunks
		}
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("holds none of data_parallel.single_gpu, .two_gpu, pipeline_parallel.model_parallel " +
			"and .pipeline_parallel, as run_benchmarks.py saves them")
	}
	return list, nil
}
