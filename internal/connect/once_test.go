package connect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
)

func TestAURLThatCannotBeReadOrReachedIsToldWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"nats://wiki:p%zz-secret@127.0.0.1:4222":                             "NATS_URL",
		"nats://127.0.0.1:4222,nats://wiki:p%zz-secret@127.0.0.1:4223":       "NATS_URL",
		"nats://wiki:secret@127.0.0.1:port":                                  "NATS_URL",
		"nats://wiki:secret@127.0.0.1:1":                                     "connect to NATS",
		"nats://wiki:secret@127.0.0.1:1,nats://wiki:secret@localhost.test:1": "connect to NATS",
	} {
		_, _, err := connect.Once(url, config.NATSAccess{})
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "secret", says)
	}
}
