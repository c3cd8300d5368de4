package calibrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/arch"
)

func network(t *testing.T, m arch.Model) arch.Network {
	t.Helper()
	n, err := m.Network()
	require.NoError(t, err)
	return n
}
