package lifecycle_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// another is another try at the same run, by another worker.
func (c trip) another() trip {
	c.try.ID, c.worker = uuid.New(), uuid.New()
	return c
}

// writes are all that a try that fetches can ask for.
func (f *fixture) writes(c trip) map[string]func() error {
	moves := f.moves(c)
	delete(moves, "complete") // semantic's, which names the run alone
	return moves
}

// hold locks a connector's row until the returned function is called.
func (f *fixture) hold(c trip) (letGo func()) {
	f.t.Helper()
	tx, err := f.pool.Begin(ctx)
	require.NoError(f.t, err)
	_, err = tx.Exec(ctx, `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, c.id)
	require.NoError(f.t, err)
	return func() { require.NoError(f.t, tx.Rollback(ctx)) }
}

func TestAMoveOfAConnectorThatSomebodyHoldsIsGivenUpUnchanged(t *testing.T) {
	f := newFixture(t)
	waiting, fetched := f.pending(), f.syncing()
	defer f.hold(waiting)()
	defer f.hold(fetched)()
	before := f.everything(waiting) + f.everything(fetched)
	type end struct {
		of  string
		err error
	}
	moves, ended := 0, make(chan end)
	for name, move := range map[string]func() error{
		"pick up": func() error { return f.PickUp(ctx, waiting.id, waiting.try, waiting.worker, lease) },
		"release": func() error { return f.Release(ctx, fetched.try) },
		"fail":    func() error { return f.Fail(ctx, fetched.try, lifecycle.Transient, "no") },
		"disable": func() error { return f.Disable(ctx, fetched.id) },
	} {
		moves++
		go func() { ended <- end{name, move()} }()
	}
	for range moves {
		e := <-ended
		require.ErrorIs(t, e.err, lifecycle.ErrHeld, e.of)
	}
	require.Equal(t, before, f.everything(waiting)+f.everything(fetched))
	require.NoError(t, f.beats(fetched), "the lease does not depend on the connector's row")
}
