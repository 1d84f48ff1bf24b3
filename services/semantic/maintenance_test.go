package semantic

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// numbered lists pages of two of so many ids, in order.
func numbered(n int) func(context.Context, uuid.UUID) ([]uuid.UUID, error) {
	return func(ctx context.Context, after uuid.UUID) (page []uuid.UUID, err error) {
		for i := 1; i <= n && len(page) < 2; i++ {
			if id := uuidOf(i); id.String() > after.String() {
				page = append(page, id)
			}
		}
		return page, ctx.Err()
	}
}

func always() bool { return true }

func TestTheMaintenanceStopsWhileALookIsUnderWay(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	c.tells(0)
	f.holds(`LOCK TABLE open_runs`) // every look waits
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.maintain(working) }()
	f.waitsForLocks(3)
	stop()
	require.NoError(t, await(t, "the end of the maintenance", ended))
}

// waitsForLocks waits until so many sessions wait for a lock.
func (f *fixture) waitsForLocks(n int64) {
	f.t.Helper()
	testkit.Eventually(f.t, soon, func() error {
		waiting := one[int64](f, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if waiting < n {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
}
