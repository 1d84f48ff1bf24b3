package contract

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// meanwhile has the owner do something on another connection, and returns once that waits for a lock; ended gives its error.
func (p *trip) meanwhile(sql string, args ...any) (ended <-chan error) {
	p.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := p.pool.Exec(ctx, sql, args...)
		done <- err
	}()
	testkit.Eventually(p, soon, func() error {
		if ask[int](p.database, `SELECT count(*)::integer FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
	return done
}

func (p *trip) runs(sql string) {
	p.Helper()
	_, err := p.conn.Exec(ctx, sql)
	require.NoError(p, err)
}

func TestWhoEndsARunWaitsForWhoHoldsIt(t *testing.T) {
	p := newTrip(t)
	for _, end := range []string{
		`SELECT moves.disable($1)`, `UPDATE connectors SET config = '{"a": 1}' WHERE id = $1`, `DELETE FROM connectors WHERE id = $1`,
	} {
		p.again()
		require.Equal(t, "true", p.says(pickUp))
		p.runs(`BEGIN`)
		require.Equal(t, "true", p.says("moves.hold($R, $T)"))
		ended := p.meanwhile(end, p.id)
		require.Equal(t, "true", p.says("moves.hold($R, $T)"), "still")
		p.runs(`COMMIT`)
		require.NoError(t, <-ended)
		require.Equal(t, "false", p.says("moves.hold($R, $T)"))
	}
}

func TestAHoldThatIsTooLongIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	p := newTrip(t)
	require.Equal(t, "true", p.says(pickUp))
	p.runs(`BEGIN`)
	require.Equal(t, "true", p.says("moves.hold($R, $T)"))
	require.Equal(t, "55P03", code(<-p.meanwhile(`SELECT moves.disable($1)`, p.id)))
	p.runs(`COMMIT`)
	require.Equal(t, fetching, p.stands(p.id))
}

func TestAMoveThatMayNotWaitLongerIsAnErrorAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	p := newTrip(t)
	tx, err := p.pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, `UPDATE connectors SET name = 'other' WHERE id = $1`, p.id)
	require.NoError(t, err)
	require.Equal(t, "55P03", p.says(pickUp))
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, "true", p.says(pickUp))
}

// Finish takes the connector first, and so does a call that ends the run: behind a hold both would wait for each other.
func TestFinishBehindAHoldLosesNothingWhereSomebodyEndsTheRun(t *testing.T) {
	t.Parallel()
	p := newTrip(t)
	require.Equal(t, "true", p.says(pickUp))
	p.runs(`BEGIN`)
	require.Equal(t, "true", p.says("moves.hold($R, $T)"))
	ended := p.meanwhile(`SELECT moves.disable($1)`, p.id)
	finished := p.says("moves.finish($R, $T)")
	if finished == "true" {
		p.runs(`COMMIT`)
		require.Contains(t, []string{"40P01", "55P03"}, code(<-ended))
		require.Equal(t, "ACTIVE schedule | completed", p.stands(p.id))
		return
	}
	require.Contains(t, []string{"40P01", "55P03"}, finished)
	p.runs(`ROLLBACK`)
	require.NoError(t, <-ended)
	require.Equal(t, "DISABLED | superseded: disabled", p.stands(p.id))
}

// Finish fences by itself: what a transaction writes behind it is committed with it, or not at all.
func TestFinishIsTheFenceOfWhatIsWrittenBehindIt(t *testing.T) {
	p := newTrip(t)
	require.Equal(t, "true", p.says(pickUp))
	p.runs(`BEGIN`)
	require.Equal(t, "true", p.says("moves.finish($R, $T)"))
	ended := p.meanwhile(`SELECT moves.disable($1)`, p.id)
	p.runs(`COMMIT`)
	require.NoError(t, <-ended)
	require.Equal(t, "DISABLED | completed", p.stands(p.id))

	p.again()
	require.Equal(t, "true", p.says(pickUp))
	p.runs(`BEGIN`)
	require.Equal(t, "true", p.says("moves.finish($R, $T)"))
	p.runs(`ROLLBACK`)
	require.Equal(t, fetching, p.stands(p.id))
}

// In a transaction that sees an old state of the tables a fence may fail, but it never passes.
func TestAnOldSnapshotPassesNoFence(t *testing.T) {
	p := newTrip(t)
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		for _, move := range []string{
			"moves.hold($R, $T)", "moves.finish($R, $T)", "moves.release($R, $T)", "moves.fail($R, $T, 'transient', 'x')", "moves.drain($R, $T, 1)",
			"moves.postpone($R, $T, '1 h', 'x')",
		} {
			p.again()
			require.Equal(t, "true", p.says(pickUp))
			p.runs(`BEGIN ISOLATION LEVEL ` + level)
			require.Equal(t, "1", p.says("1 FROM connectors LIMIT 1"))
			require.True(t, ask[bool](p.database, `SELECT moves.disable($1)`, p.id))
			answer := p.says(move)
			if level == "READ COMMITTED" {
				require.Equal(t, "false", answer, "%s %s", level, move)
			} else {
				require.Contains(t, []string{"false", "40001"}, answer, "%s %s", level, move)
			}
			p.runs(`ROLLBACK`)
			require.Equal(t, "DISABLED | superseded: disabled", p.stands(p.id))
		}
	}
}

func TestOfManyTriesOnePicksUp(t *testing.T) {
	p := newTrip(t)
	const all = 8
	answers := make(chan bool, all)
	for range all {
		conn := p.member(subscriber)
		go func(try uuid.UUID) {
			var picked bool
			err := conn.QueryRow(ctx, `SELECT moves.pick_up($1, $2, $3)`, p.id, p.run, try).Scan(&picked)
			answers <- err == nil && picked
		}(uuid.New())
	}
	picked := 0
	for range all {
		if <-answers {
			picked++
		}
	}
	require.Equal(t, 1, picked)
}
