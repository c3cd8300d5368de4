package units_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/units"
)

func TestPlural(t *testing.T) {
	require.Equal(t, "1 device", units.Plural(1, "device"))
	require.Equal(t, "0 devices", units.Plural(0, "device"))
	require.Equal(t, "1 microbatch", units.Plural(1, "microbatch"))
	require.Equal(t, "4 microbatches", units.Plural(4, "microbatch"))
}
