package configs

import (
	"fmt"
	"math"

	"psim/costmodel/lengths"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// maxLengths bounds a file of lengths, in bytes.
const maxLengths = 64 << 20

// lengths reads how many tokens samples have.
func (c *Config) lengths() (d lengths.Distribution, err error) {
	given := c.Data.Lengths
	if given.File == "" {
		if d, err = lengths.Bounded(given.Mean, given.Max); err != nil {
			err = fmt.Errorf("lengths = %s: %w", given, err)
		}
		return d, err
	}
	data, err := c.readBeside(given.File, maxLengths)
	if err == nil {
		d, err = lengths.Read(data)
	}
	if err != nil {
		err = fmt.Errorf("lengths = %q: %w", given.File, err)
	}
	return d, err
}

// withLengths gives a model packed samples of different lengths, or the longest of padded ones, which memory is for.
func (c *Config) withLengths(m models.Model) (models.Model, error) {
	if !c.Data.Lengths.Given() {
		return m, nil
	}
	d, err := c.lengths()
	switch {
	case err != nil:
		err = c.problem("data", err)
	case c.Data.Pads():
		m = m.UpTo(d.Longest())
	default:
		m, _, err = m.Batched(lengths.Batches{Distribution: d})
	}
	return m, err
}

// padded gives the model padded batches of a number of samples.
func (c *Config) padded(samples int64) (m models.Model, b lengths.Batches, err error) {
	if m, err = c.model(); err != nil {
		return m, b, err
	}
	b = lengths.Batches{Padded: samples, Sorted: c.Data.Sorted}
	if b.Distribution, err = c.lengths(); err != nil {
		return m, b, err
	}
	return m.Batched(b)
}

// adapted gives a network its frozen parts and adapters, and samples of different lengths.
func (c *Config) adapted(n network.Network, t training.Options, samples int64) (network.Network, error) {
	if err := c.checkLengths(); err != nil {
		return n, err
	}
	return c.timed(c.shared.adapted(n, t), t, samples)
}

// timed gives a network of the longest samples, which memory is for, the operations of the mean padded batch.
func (c *Config) timed(n network.Network, t training.Options, samples int64) (network.Network, error) {
	if !c.Data.Pads() {
		return n, nil
	}
	m, _, err := c.padded(samples)
	if err != nil {
		return n, err
	}
	mean, err := m.On(n.Group)
	if err != nil {
		return n, err
	}
	return n.Timed(t.Adapted(mean)), nil
}

// checkLengths refuses what is not modelled with samples of different lengths.
func (c *Config) checkLengths() error {
	refuse := func(what, instead string) error {
		return fmt.Errorf("lengths = %s: is not modelled with %s; set %s", c.Data.Lengths, what, instead)
	}
	switch pads := c.Data.Pads(); {
	case !c.Data.Lengths.Given():
	case c.Parallel.Context > 1:
		return refuse(fmt.Sprintf("parallel.context = %d", c.Parallel.Context), "parallel.context = 1")
	case pads && c.Schedule.Stages > 1:
		return refuse(fmt.Sprintf(`batches = "padded" and schedule.stages = %d`, c.Schedule.Stages),
			`data.batches = "packed"`)
	case pads && c.Train.Narrow():
		return refuse(fmt.Sprintf(`batches = "padded" and train.precision = %q`, c.Train.Precision),
			`data.batches = "packed"`)
	}
	return nil
}

// countTokens counts the tokens of a step, without padding.
func (c *Config) countTokens(e *Experiment) (err error) {
	if tokens := e.Network.TokensPerSample; tokens > 1 {
		e.Tokens = e.Samples * int64(tokens)
	}
	if c.Data.Pads() {
		if _, e.Batches, err = c.padded(e.Staged.Samples[0]); err == nil {
			e.Tokens = int64(math.Round(e.Batches.Real() * float64(e.Samples)))
		}
	}
	return err
}

// ofPadding warns of what padded batches mean for rates.
func (c *Config) ofPadding(p *Experiment) []string {
	b := p.Batches
	if b.Padded == 0 {
		return nil
	}
	text := fmt.Sprintf("samples of %.0f tokens in the mean are padded to %d: rates count the former, FLOPs the "+
		"latter, and memory is for %d", b.Real(), b.Tokens(), p.Network.TokensPerSample)
	if c.Parallel.Data > 1 {
		text += "; that replicas wait for the one with the longest batch is not counted"
	}
	return []string{text}
}

// batchNotes says how sequences are packed.
func (c *Config) batchNotes(say func(string, ...any)) {
	if c.Data.Lengths.Given() && !c.Data.Pads() {
		say("sequences packed from samples of %s tokens; attention stays within a sample", c.Data.Lengths)
	}
}
