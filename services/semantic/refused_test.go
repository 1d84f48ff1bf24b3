//go:build !race

// What Postgres decides is the same under the race detector.

package semantic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/testonly/movestest"
)

// refusesVerdicts lets Postgres refuse the verdict of one connector's runs, as an operator's trigger may.
func (f *fixture) refusesVerdicts(id int32) {
	f.exec(`CREATE TABLE refused (id integer)`)
	f.exec(`INSERT INTO refused VALUES ($1)`, id)
	f.exec(`CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		IF EXISTS (SELECT FROM refused r WHERE r.id = NEW.connector_id) THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER refuse_one BEFORE INSERT ON runs FOR EACH ROW EXECUTE FUNCTION refuse_one()`)
}

func TestARunWhoseVerdictIsRefusedKeepsNoOtherFromItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(f *fixture) trip
		look func(s *Semantic) error
	}{
		"worker lost": {func(f *fixture) trip { return f.lostAgain() }, func(s *Semantic) error { return s.Abandon(ctx) }},
		"lost in transit": {func(f *fixture) trip {
			c := f.syncing()
			require.NoError(f.t, lifecycle.New(f.pool).Drain(ctx, c.of(), 7))
			return c
		}, func(s *Semantic) error {
			runs, err := s.queries.DrainingRuns(ctx, 10)
			require.NoError(t, err)
			p := dbgen.FailLostInTransitParams{FirstSeq: 8, LastSeq: 9}
			for _, r := range runs {
				p.Candidates = append(p.Candidates, r.ID)
			}
			return s.failBatch(ctx, p)
		}},
		"message not taken": {func(f *fixture) trip { return f.notTaken(10) }, func(s *Semantic) error { return s.FailNotTaken(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			first, others := c.lose(f), []trip{c.lose(f), c.lose(f)}
			f.refusesVerdicts(first.connector)
			require.ErrorContains(t, c.look(f.Semantic), "is tried again: no")
			require.NotEqual(t, "ERROR", first.status())
			for _, other := range others {
				require.Equal(t, "failed: "+name, one[string](f, `SELECT status || ': ' || reason FROM scheduler_runs WHERE id = $1`, other.session))
				require.Equal(t, "ERROR", other.status())
			}
			f.exec(`DELETE FROM refused`)
			require.NoError(t, c.look(f.Semantic))
			require.Equal(t, "ERROR", first.status())
		})
	}
}

// notTaken is a run that waits, and whose message has left the stream so often.
func (f *fixture) notTaken(times int) trip {
	f.t.Helper()
	c := f.connector()
	c.session = movestest.Claim(f.t, f.pool, c.connector)
	f.exec(`UPDATE open_runs SET dispatches = 20, not_taken = $2 WHERE id = $1`, c.session, times)
	return c
}

func TestARunWhoseMessageNobodyCanTakeFailsAndIsTriedAgainLater(t *testing.T) {
	f := newFixture(t)
	c, waits := f.notTaken(10), f.notTaken(9)
	require.NoError(t, inTime(f.FailNotTaken))
	require.True(t, one[bool](f, `SELECT status = 'ERROR' AND failure_count = 1 AND due_reason = 'retry' AND run_id IS NULL
		AND next_sync_at > clock_timestamp() + interval '1 minute' AND status_message LIKE 'nobody could take its message: %'
		FROM connectors WHERE id = $1`, c.connector))
	require.Equal(t, "PENDING", waits.status(), "its tenth message may still be there")
}
