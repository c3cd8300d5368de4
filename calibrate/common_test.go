package calibrate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
)

func build(t *testing.T, m models.Model) network.Network {
	t.Helper()
	n, err := m.Network()
	require.NoError(t, err)
	return n
}
