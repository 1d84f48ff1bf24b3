package audit_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
)

const published = "every message is of a run"

func TestAMessageOfNoRunIsFound(t *testing.T) {
	l := newLab(t)
	run := l.claim(l.add("synthetic", source.Config{}))
	f, err := audit.Published(ctx, l.pool, []uuid.UUID{run})
	require.NoError(t, err)
	require.Empty(t, f.Violations)
	f, err = audit.Published(ctx, l.pool, []uuid.UUID{run, uuid.New()})
	require.NoError(t, err)
	require.Contains(t, strings.Join(f.Violations, "\n"), "which nobody has opened")
	require.Equal(t, published, f.Name)
	found.Store(f.Name, true)
}
