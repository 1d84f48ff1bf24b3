package semantic

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// lostAgain is a run whose worker is lost, of a connector whose worker was lost before.
func (f *fixture) lostAgain(set ...string) trip {
	f.t.Helper()
	c := f.connector(set...)
	movestest.Force(f.t, f.pool, `UPDATE connectors SET failure_count = 1 WHERE id = $1`, c.connector)
	c = c.again()
	c.losesItsWorker()
	return c
}

func (f *fixture) abandons() {
	f.t.Helper()
	require.NoError(f.t, inTime(f.Abandon))
}

func TestOfTwoReplicasOneAbandons(t *testing.T) {
	f := newFixture(t)
	other := f.service(f.connects())
	for range 20 {
		f.lostAgain()
	}
	ended := make(chan error, 2)
	for _, s := range []*Semantic{f.Semantic, other} {
		go func() { ended <- s.Abandon(ctx) }()
	}
	for range 2 {
		require.NoError(t, <-ended)
	}
	f.abandons()
	require.Equal(t, int64(20), f.count("connectors WHERE status = 'ERROR' AND failure_count = 2"))
}

func TestARunThatSomebodyHoldsLeavesTheOthersOfALostWorkerTheirVerdict(t *testing.T) {
	for name, hold := range map[string]string{
		"connector": `SELECT FROM connectors WHERE id = $1 FOR UPDATE`,
		"open run":  `SELECT FROM open_runs WHERE connector_id = $1 FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			held, other := f.lostAgain(), f.lostAgain()
			release := f.holds(hold, held.connector)
			f.abandons()
			held.stillRuns()
			require.Equal(t, "ERROR", other.status())
			release()
			f.abandons()
			require.Equal(t, "ERROR", held.status())
		})
	}
}

func TestNobodyIsAbandonedForALeaseAfterPostgresTookNoMoreConnections(t *testing.T) {
	t.Parallel()
	_, url := testkit.PrivatePostgres(t, db.Up)
	f := newFlowOn(t, url)
	f.abandons() // so that its connections are open
	c := f.lostAgain()
	var taken []*pgx.Conn
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			taken = append(taken, conn)
		} else if !strings.Contains(err.Error(), "53300") {
			t.Fatal(err)
		}
		if full, err := f.queries.IsFull(ctx); err != nil || full == nil {
			t.Fatal(err)
		} else if *full {
			break
		}
	}
	f.abandons()
	c.stillRuns()
	for _, conn := range taken {
		require.NoError(t, conn.Close(ctx))
	}
	f.abandons()
	require.Equal(t, "ERROR", c.status())
}
