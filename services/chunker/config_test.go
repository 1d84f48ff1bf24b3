package chunker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
)

func valid(t *testing.T) Config {
	t.Helper()
	var cfg Config
	require.NoError(t, config.Load(&cfg))
	cfg.DatabaseURL = "postgres://127.0.0.1/echomind"
	return cfg
}

func TestTheDefaultsAreValid(t *testing.T) {
	require.NoError(t, valid(t).Validate())
}

func TestEveryBadSettingIsNamedWithItsValue(t *testing.T) {
	cfg := valid(t)
	cfg.AllowCIDRs = []string{"10.0.0.0/8", "localhost"}
	cfg.FileRoots = []string{"/srv", "relative/folder"}
	cfg.MaxTokens = 3
	cfg.Worker.Slots = 0
	err := cfg.Validate()
	for _, told := range []string{
		`CHUNKER_ALLOW_CIDRS: "localhost"`, `CHUNKER_FILE_ROOTS: "relative/folder"`, "MaxTokens: 3", "WORKER_SLOTS=0",
	} {
		require.ErrorContains(t, err, told)
	}
}
