package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs/parallel"
)

// Expert groups divide the devices of a rank, which has tensor × context of them, or are
// whole ranks.
func TestExpertGroupsAmongParts(t *testing.T) {
	for _, p := range []parallel.Options{
		{Tensor: 2, Context: 4, Expert: 8, Sequence: true},
		{Tensor: 2, Context: 4, Expert: 4, ExpertTensor: 2, Sequence: true},
		{Context: 4, Data: 2, Expert: 8},
	} {
		require.NoError(t, p.Validate(), "%+v", p)
	}
	for want, p := range map[string]parallel.Options{
		"must divide tensor × context × data = 4":                        {Context: 4, Expert: 8},
		"must be parts of a rank's tensor × context = 4, or whole ranks": {Context: 4, Data: 6, Expert: 6},
	} {
		require.ErrorContains(t, p.Validate(), want)
	}
}
