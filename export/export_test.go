package export

import (
	"context"

	"psim/configs"
	"psim/launch"
)

// Megatron returns the arguments of Megatron-LM that train by a configuration. An error names the key that it has no
// argument for.
func Megatron(ctx context.Context, c *configs.Config) ([]launch.Argument, error) {
	p, err := planMegatron(ctx, c)
	if err != nil {
		return nil, err
	}
	return p.command.All(), nil
}
