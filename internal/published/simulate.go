package published

import (
	"context"

	"psim"
	"psim/configs"
)

// simulate predicts a configuration in TOML.
func simulate(config string) (psim.Simulation, error) {
	return predict(configs.Parse("table", []byte(config)))
}

// simulateExample predicts an example, with settings over it.
func simulateExample(name string, sets ...string) (psim.Simulation, error) {
	return predict(psim.Load(name, sets...))
}

func predict(c *configs.Config, err error) (psim.Simulation, error) {
	if err != nil {
		return psim.Simulation{}, err
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		return psim.Simulation{}, err
	}
	return p.Simulation, nil
}
