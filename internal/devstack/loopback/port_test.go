package loopback_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/devstack/loopback"
)

func TestThePreferredPortIsTakenWhileItIsFree(t *testing.T) {
	port, err := loopback.Port(0)
	require.NoError(t, err)
	same, err := loopback.Port(port)
	require.NoError(t, err)
	require.Equal(t, port, same)

	squatter, err := net.Listen("tcp", loopback.Address(port))
	require.NoError(t, err)
	defer func() { require.NoError(t, squatter.Close()) }()
	require.False(t, loopback.Free(port))
	other, err := loopback.Port(port)
	require.NoError(t, err)
	require.NotEqual(t, port, other)
}
