package evidence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
)

// What `why` says of how long a service waits is what the service says itself.
func TestTheWaitsAreThoseOfTheServices(t *testing.T) {
	t.Parallel()
	const services, why = "../../../../services/", "../../../../internal/evidence"
	require.Equal(t, constant(t, services+"scheduler", "maxLostGrace"), constant(t, why, "maxLostGrace"))
	require.Equal(t, constant(t, services+"semantic", "lookInterval"), constant(t, why, "semanticLook"))
	var cfg semantic.Config
	require.NoError(t, config.Load(&cfg))
	require.Equal(t, fmt.Sprintf("%d * time.Second", cfg.LeaseSeconds), constant(t, why, "missingFor"))
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

// What services/api takes the scheduler's settings to be is what the scheduler does.
func TestTheSettingsOfWhyAreThoseOfTheScheduler(t *testing.T) {
	t.Parallel()
	var says evidence.SchedulerSays
	var cfg scheduler.Config
	require.NoError(t, config.Load(&says))
	require.NoError(t, config.Load(&cfg))
	require.Equal(t, evidence.Settings{
		MaxConcurrent: cfg.MaxConcurrentSyncs, OwnerShare: cfg.OwnerSharePercent, CheckInterval: time.Duration(cfg.CheckIntervalSeconds) * time.Second,
		WatchInterval: time.Duration(cfg.WatchIntervalSeconds) * time.Second, LostGrace: time.Duration(cfg.LostGraceSeconds) * time.Second, ForeignTimeout: cfg.ForeignTimeout,
	}, says.Settings())
}
