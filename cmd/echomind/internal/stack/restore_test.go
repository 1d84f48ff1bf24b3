package stack_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/pgserver"
	"github.com/echomind/sync/testonly/testkit"
)

// client runs a program that comes with the server's. The commands are those of docs/operations.md.
func client(t *testing.T, name string, args ...string) {
	t.Helper()
	bin, err := pgserver.Find()
	require.NoError(t, err)
	server, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	require.NoError(t, err)
	out, err := exec.Command(filepath.Join(filepath.Dir(server), name), args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", name, out)
}

// inFlight leaves the world as a busy one is when the backup is taken: all have synced once, and now some wait to be
// picked up, and some have a worker that will never be heard of again.
func (r *rollout) inFlight(release string) {
	r.Helper()
	r.isReady(r.start(release, "scheduler"))
	r.isReady(r.start(release, "semantic"))
	chunker := r.start(release, "chunker")
	r.isReady(chunker)
	finish := r.keepSyncing()
	r.syncs()
	finish()
	r.rests()
	r.stop(chunker)
	require.NoError(r, r.change(r.conn))
	r.status("PENDING", upgradeSources)
	_, err := r.conn.Exec(r.Context(), `SELECT moves.pick_up(id, run_id, gen_random_uuid(), gen_random_uuid(), '15 s')
		FROM connectors WHERE status = 'PENDING' AND id % 2 = 0`)
	require.NoError(r, err)
}

func (r *rollout) status(status string, want int) {
	r.Helper()
	testkit.Eventually(r, time.Minute, func() error {
		var n int
		err := r.conn.QueryRow(r.Context(), `SELECT count(*) FROM connectors WHERE status = $1`, status).Scan(&n)
		if err == nil && n != want {
			return fmt.Errorf("%d are %s, want %d", n, status, want)
		}
		return err
	})
}

func (r *rollout) stopAll() {
	r.Helper()
	for len(r.fleet) > 0 {
		r.stop(r.fleet[0])
	}
}

func TestADatabaseThatIsRestoredFromAnOldBackupCatchesUpWhateverTheBrokerStillHolds(t *testing.T) {
	t.Parallel()
	release, err := programs()
	require.NoError(t, err)
	for name, broker := range map[string]func(old string) string{
		"the broker kept its messages": func(old string) string { return old },
		"the broker is lost too":       func(string) string { return testkit.NATS(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newRollout(t, testkit.Database(t, db.Up))
			before.inFlight(release)
			dump := filepath.Join(t.TempDir(), "echomind.dump")
			client(t, "pg_dump", "--format=custom", "--file="+dump, before.database)

			// The world goes on for two rounds; the second waits in the stream when the database is lost.
			chunker := before.start(release, "chunker")
			before.isReady(chunker)
			require.NoError(t, before.change(before.conn))
			before.rests()
			before.stop(chunker)
			require.NoError(t, before.change(before.conn))
			before.status("PENDING", upgradeSources)
			before.stopAll()
			_, err := before.conn.Exec(t.Context(), `DROP SCHEMA public, moves CASCADE`)
			require.NoError(t, err)

			after := newRollout(t, testkit.Postgres(t))
			after.root, after.round, after.broker = before.root, before.round, broker(before.broker)
			client(t, "pg_restore", "--exit-on-error", "--no-owner", "--dbname="+after.database, dump)
			for _, name := range []string{"scheduler", "chunker", "semantic"} {
				after.isReady(after.start(release, name))
			}
			verdicts := after.rests()
			for verdict := range verdicts {
				require.NotContains(t, verdict, "running")
				if strings.HasPrefix(verdict, "failed") {
					require.Equal(t, "failed: worker lost", verdict, "what had a worker when the backup was taken")
				}
			}
			var open int
			require.NoError(t, after.conn.QueryRow(t.Context(), `SELECT count(*) FROM scheduler_runs WHERE completed_at IS NULL`).Scan(&open))
			require.Zero(t, open)
			search := program(t, "echomind", "DATABASE_URL="+after.database, "NATS_URL="+after.broker)
			search.Args = append(search.Args, "search", "--user", "1", "round of source")
			search.Stderr = os.Stderr
			found, err := search.Output()
			require.NoError(t, err)
			require.Contains(t, string(found), "of source")
		})
	}
}
