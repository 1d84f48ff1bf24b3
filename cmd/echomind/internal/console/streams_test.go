package console_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

func TestStreamsAreMadeAndShownWithWhatIsWeakAboutThem(t *testing.T) {
	u := newTerminal(t)
	u.lookup.NATSURL = testkit.NATS(t).URL()
	require.Contains(t, u.succeed("streams", "show"), "CONNECTOR_SYNC: it does not exist; run `echomind streams apply`")
	for range 2 {
		u.succeed("streams", "apply", "--max-document-bytes", "100000000", "--wait", "5s")
	}
	var shown []struct {
		Name     string
		MaxBytes int64 `json:"max_bytes"`
		Replicas int
		Warnings []string
	}
	require.NoError(t, json.Unmarshal([]byte(u.succeed("streams", "show", "-o", "json")), &shown))
	require.Len(t, shown, 4)
	require.Equal(t, "DOCUMENT_PROCESS", shown[2].Name)
	require.EqualValues(t, 100000000, shown[2].MaxBytes)
	require.Equal(t, 1, shown[0].Replicas)
	require.Contains(t, shown[0].Warnings[0], "replicas is 1")

	u.succeed("streams", "apply")
	require.NoError(t, json.Unmarshal([]byte(u.succeed("streams", "show", "-o", "json")), &shown))
	require.EqualValues(t, 100000000, shown[2].MaxBytes, "what is not given stays")
	require.Equal(t, 2, u.run("streams", "apply", "--replicas", "9").code)
	small := u.run("streams", "apply", "--max-document-bytes", "5")
	require.Equal(t, 2, small.code)
	require.Contains(t, small.stderr, "--max-document-bytes 5: must be at least 1048576")
	u.lookup.NATSURL = "nats://127.0.0.1:1"
	require.Contains(t, u.run("streams", "show").stderr, "connect to NATS")
}
