package evidence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/semantic"
)

// What `why` says of how long a service waits is what the service says itself.
func TestTheWaitsAreThoseOfTheServices(t *testing.T) {
	t.Parallel()
	const services = "../../../../services/"
	require.Equal(t, constant(t, services+"scheduler", "maxLostGrace"), constant(t, ".", "maxLostGrace"))
	require.Equal(t, constant(t, services+"semantic", "lookInterval"), constant(t, ".", "semanticLook"))
	var cfg semantic.Config
	require.NoError(t, config.Load(&cfg))
	require.Equal(t, fmt.Sprintf("%d * time.Second", cfg.LeaseSeconds), constant(t, ".", "missingFor"))
}

// constant is the value of a constant of a package, as it is written.
func constant(t *testing.T, dir, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	declared := regexp.MustCompile(`(?m)^(?:const|\t)\s*` + name + `\s+=\s+(.+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if m := declared.FindSubmatch(text); m != nil {
			return string(m[1])
		}
	}
	t.Fatalf("%s declares no constant %s", dir, name)
	return ""
}
