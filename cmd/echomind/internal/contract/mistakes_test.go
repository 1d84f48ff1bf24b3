package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// trip is a run that a subscriber has, or thinks it has.
type trip struct {
	*database
	conn     *pgx.Conn
	id       int32
	run, try uuid.UUID
	worker   uuid.UUID
}

func newTrip(t *testing.T) *trip {
	d := newDatabase(t)
	p := &trip{database: d, conn: d.member(subscriber), try: uuid.New(), worker: uuid.New()}
	p.again()
	return p
}

// again begins with a connector that waits to be picked up.
func (p *trip) again() {
	p.Helper()
	p.id, p.run = p.pending()
	p.try = uuid.New()
}

// says calls a move as the subscriber; in it $C, $R, $T and $W are the connector, the run, the try and the worker, and $X is
// nobody's UUID. It returns the answer, or the error's code.
func (p *trip) says(sql string) string {
	p.Helper()
	text := strings.NewReplacer("$C", fmt.Sprint(p.id), "$R", "'"+p.run.String()+"'", "$T", "'"+p.try.String()+"'",
		"$W", "'"+p.worker.String()+"'", "$X", "'"+uuid.NewString()+"'").Replace(sql)
	rows, err := p.conn.Query(ctx, "SELECT "+text)
	if err != nil {
		return code(err)
	}
	answers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values...), err
	})
	if err != nil {
		return code(err)
	}
	return strings.Join(answers, " ")
}

const (
	pickUp       = "moves.pick_up($C, $R, $T)"
	pickUpLeased = "moves.pick_up($C, $R, $T, $W, '15 s')"
	claimed      = "PENDING | running"
	fetching     = "SYNCING | running"
)

// Each is done to a connector in a state, and changes nothing.
func TestAMistakeChangesNothing(t *testing.T) {
	p := newTrip(t)
	for _, m := range []struct{ before, mistake, answer string }{
		// Waiting to be picked up.
		{"", "moves.pick_up($C, $X, $T)", "false"},
		{"", "moves.pick_up(-1, $R, $T)", "false"},
		{"", "moves.pick_up(NULL, $R, $T)", "false"},
		{"", "moves.pick_up($C, $R, NULL)", "22023"},
		{"", "moves.pick_up($C, $R, $R)", "22023"},
		{"", "moves.pick_up($C, NULL, $T)", "false"},
		{"", "moves.pick_up($C, $R, $T, $W)", "22023"},
		{"", "moves.pick_up($C, $R, $T, NULL, '15 s')", "22023"},
		{"", "moves.pick_up($C, $R, $T, $W, '-15 s')", "22023"},
		{"", "moves.pick_up($C, $R, $T, $W, '0.9 s')", "22023"},
		{"", "moves.pick_up($C, $R, $T, $W, '61 min')", "22023"},
		{"", "moves.drain($R, $T, 1)", "false"},
		{"", "moves.fail($R, $T, 'permanent', 'no')", "false"},
		{"", "moves.finish($R, $T, '{}')", "false"},
		{"", "moves.hold($R, $T)", "false"},
		{"", "moves.hold($R, NULL)", "false"},
		{"", "moves.release($X, $T)", "false"},
		{"", "moves.release(NULL, NULL)", "false"},
		{"", "moves.heartbeat($W, '15 s', ARRAY[$R]::uuid[], ARRAY[$T]::uuid[]) = $T", "true"},
		{"", "moves.heartbeat(NULL, '15 s', NULL, NULL)", "22023"},
		{"", "moves.heartbeat($W, '-1 s', NULL, NULL)", "22023"},
		{"", "moves.heartbeat($W, NULL, NULL, NULL)", "22023"},
		// Being fetched by another try.
		{pickUp, "moves.pick_up($C, $R, $X)", "false"},
		{pickUp, "moves.pick_up($C, $R, $T, $W, '15 s')", "false"},
		{pickUp, "moves.release($R, $X)", "false"},
		{pickUp, "moves.release($R, NULL)", "false"},
		{pickUp, "moves.release($X, $T)", "false"},
		{"", "moves.postpone($R, $T, '1 h', 'no')", "false"},
		{"", "moves.waits($R, $T, '1 h', 'no')", "false"},
		{pickUp, "moves.postpone($R, $X, '1 h', 'no')", "false"},
		{pickUp, "moves.postpone($X, $T, '1 h', 'no')", "false"},
		{pickUp, "moves.postpone(NULL, NULL, '1 h', 'no')", "false"},
		{pickUp, "moves.postpone($R, $T, NULL, 'no')", "22023"},
		{pickUp, "moves.waits($R, $X, '1 h', 'no')", "false"},
		{pickUp, "moves.waits($R, $T, NULL, 'no')", "22023"},
		{pickUp, "moves.fail($R, $X, 'permanent', 'no')", "false"},
		{pickUp, "moves.fail($X, $T, 'permanent', 'no')", "false"},
		{pickUp, "moves.fail(NULL, NULL, 'permanent', 'no')", "false"},
		{pickUp, "moves.fail($R, $T, 'worse', 'no')", "22023"},
		{pickUp, "moves.fail($R, $T, NULL, 'no')", "22023"},
		{pickUp, "moves.finish($R, $X, '{}')", "false"},
		{pickUp, "moves.finish($R, $T, '[]')", "23514 connectors_state_object"},
		{pickUp, "moves.finish($R, $T, 'null')", "23514 connectors_state_object"},
		{pickUp, "moves.finish($R, $T, jsonb_build_object('x', repeat('x', 70000)))", "23514 connectors_state_size"},
		{pickUp, "moves.drain($R, $X, 1)", "false"},
		{pickUp, "moves.drain($R, $T, NULL)", "22023"},
		{pickUp, "moves.drain($R, $T, 0)", "22023"},
		{pickUp, "moves.drain($R, $T, -1)", "22023"},
		{pickUp, "moves.hold($R, $X)", "false"},
		{pickUp, "moves.hold($X, $T)", "false"},
		{pickUp, "moves.heartbeat($W, '15 s', ARRAY[$R]::uuid[], ARRAY[$T]::uuid[]) = $T", "true"},
		{pickUpLeased, pickUp, "false"},
		{pickUpLeased, "moves.pick_up($C, $R, $T, $X, '15 s')", "false"},
		{pickUpLeased, "moves.heartbeat($X, '15 s', ARRAY[$R]::uuid[], ARRAY[$T]::uuid[]) = $T", "true"},
		{pickUpLeased, "moves.heartbeat($W, '15 s', ARRAY[$R]::uuid[], ARRAY[$X]::uuid[]) = $X", "true"},
		{pickUpLeased, "moves.heartbeat($W, '15 s', ARRAY[$R, $R]::uuid[], ARRAY[$T, $X]::uuid[]) = $X", "true"},
		// Draining.
		{"(" + pickUp + ", moves.drain($R, $T, 7))", pickUp, "false"},
		{"(" + pickUp + ", moves.drain($R, $T, 7))", "moves.drain($R, $T, 8)", "false"},
		{"(" + pickUp + ", moves.drain($R, $T, 7))", "moves.finish($R, $T)", "55000"},
		// No subscriber's.
		{pickUp, "moves.complete($R)", "42501"},
		{pickUp, "moves.disable($C)", "42501"},
		{"", "moves.claim('[]', now())", "42501"},
		{"", "config FROM connectors", "42501"},
		{"", "run_id FROM connectors", "42501"},
		{"", "1 FROM open_runs", "42501"},
		{"", "1 FROM workers", "42501"},
		{"", "state FROM connectors", "42501"},
		{"", "1 FROM scheduler_runs", "42501"},
		{"", "1 FROM runs", "42501"},
		{"", "1 FROM documents", "42501"},
		{"", "1 FROM connector_secrets", "42501"},
	} {
		p.again()
		stands := claimed
		if m.before != "" {
			require.NotContains(t, p.says(m.before), "false")
			stands = fetching
		}
		about := fmt.Sprintf("%s, then %s", m.before, m.mistake)
		const drains = `SELECT coalesce(drain_seq::text, '-') FROM open_runs WHERE id = $1`
		drain := ask[string](p.database, drains, p.run)
		assert.Equal(t, m.answer, p.says(m.mistake), about)
		require.Equal(t, stands, p.stands(p.id), about)
		require.Equal(t, drain, ask[string](p.database, drains, p.run), about)
	}
}

func TestWhatIsDoneTwiceIsDoneOnce(t *testing.T) {
	p := newTrip(t)
	for _, m := range []struct{ move, second, stands string }{
		{pickUp, "true", fetching},
		{pickUpLeased, "true", fetching},
		{"moves.finish($R, $T)", "false", "ACTIVE schedule | completed"},
		{"moves.release($R, $T)", "false", "ACTIVE release | superseded: released"},
		{"moves.postpone($R, $T, '1 h', 'x')", "false", "ACTIVE wait | superseded: postponed"},
		{"moves.waits($R, $T, '1 min', 'x')", "true", fetching},
		{"moves.fail($R, $T, 'transient', 'x')", "false", "ERROR retry | failed: transient failure"},
		{"moves.fail($R, $T, 'permanent', 'x')", "false", "ERROR | failed: permanent failure"},
		{"moves.fail($R, $T, 'too_long', 'x')", "false", "ERROR retry | failed: took too long"},
		{"moves.drain($R, $T, 3)", "false", fetching},
		{"moves.cut($R, $T, 2, 3, 'x')", "true", fetching},
		{"moves.cut($R, $T, 2, 3, 'x', '1 h')", "true", fetching},
	} {
		p.again()
		if !strings.Contains(m.move, "pick_up") {
			require.Equal(t, "true", p.says(pickUp))
		}
		require.Equal(t, "true", p.says(m.move))
		require.Equal(t, m.stands, p.stands(p.id), m.move)
		require.Equal(t, m.second, p.says(m.move), "%s again", m.move)
		require.Equal(t, m.stands, p.stands(p.id), "%s again", m.move)
	}
}

func TestNothingIsMovedAfterTheEnd(t *testing.T) {
	p := newTrip(t)
	for _, end := range []string{"moves.finish($R, $T)", "moves.release($R, $T)", "moves.postpone($R, $T, '1 h', 'x')", "moves.fail($R, $T, 'transient', 'x')"} {
		p.again()
		require.Equal(t, "true", p.says(pickUp))
		require.Equal(t, "true", p.says(end))
		stands := p.stands(p.id)
		for _, late := range []string{
			pickUp, pickUpLeased, "moves.finish($R, $T)", "moves.release($R, $T)", "moves.fail($R, $T, 'permanent', 'x')",
			"moves.drain($R, $T, 3)", "moves.cut($R, $T, 2, 3, 'x')", "moves.cut($R, $T, 2, 3, 'x', '1 h')", "moves.hold($R, $T)",
			"moves.postpone($R, $T, '1 h', 'x')", "moves.waits($R, $T, '1 h', 'x')",
		} {
			require.Equal(t, "false", p.says(late), "%s, then %s", end, late)
		}
		require.Equal(t, stands, p.stands(p.id), end)
	}
}

func TestARunThatItsWorkerDoesNotNameIsFoundLost(t *testing.T) {
	p := newTrip(t)
	const keeps = `SELECT r.worker_id = $2 AND EXISTS (SELECT FROM workers w WHERE w.id = r.worker_id AND w.expires_at > now())
		FROM open_runs r WHERE r.id = $1`
	require.Equal(t, "true", p.says(pickUpLeased))
	p.exec(`UPDATE open_runs SET picked_up_at = picked_up_at - interval '1 min' WHERE id = $1`, p.run)
	for _, call := range []string{
		"moves.heartbeat($W, '15 s', ARRAY[$R]::uuid[], ARRAY[$T]::uuid[])", "moves.heartbeat($W, '15 s', NULL, NULL)",
		"moves.heartbeat($X, '15 s', '{}', '{}')",
	} {
		require.Empty(t, p.says(call), call)
		require.True(t, ask[bool](p.database, keeps, p.run, p.worker), call)
	}
	require.Empty(t, p.says("moves.heartbeat($W, '15 s', '{}', '{}')"))
	require.False(t, ask[bool](p.database, keeps, p.run, p.worker))
	require.NotEmpty(t, p.says("moves.heartbeat($W, '15 s', ARRAY[$R]::uuid[], ARRAY[$T]::uuid[])"), "it is told so")
	require.Equal(t, "true", p.says("moves.release($R, $T)"), "and may still hand it back")
}

func TestASubscriberWritesNoTable(t *testing.T) {
	p := newTrip(t)
	for _, sql := range []string{
		`UPDATE connectors SET status = 'ACTIVE'`, `UPDATE connectors SET trigger_requested_at = now()`, `DELETE FROM connectors`,
		`UPDATE open_runs SET stored = 1`, `DELETE FROM open_runs`, `DELETE FROM workers`, `INSERT INTO runs DEFAULT VALUES`,
		`INSERT INTO connector_types VALUES ('other')`, `DELETE FROM documents`,
	} {
		_, err := p.conn.Exec(ctx, `SELECT set_config('echomind.moving', 'on', false)`)
		require.NoError(t, err)
		_, err = p.conn.Exec(ctx, sql)
		require.Equal(t, "42501", code(err), sql)
	}
}
