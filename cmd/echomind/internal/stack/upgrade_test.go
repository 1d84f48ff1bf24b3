package stack_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

// roll syncs without a stop while expand changes the schema under a fleet of the old release, which is then replaced.
func (r *rollout) roll(before, after string, expand func()) {
	r.Helper()
	for _, name := range []string{"scheduler", "scheduler", "chunker", "chunker", "semantic", "semantic"} {
		r.isReady(r.start(before, name))
	}
	finish := r.keepSyncing()
	r.syncs()
	expand()
	r.syncs()
	for _, m := range slices.Clone(r.fleet) {
		r.isReady(m)
		r.replace(m, before)
	}
	r.syncs()
	for _, m := range slices.Clone(r.fleet) {
		r.replace(m, after)
	}
	r.syncs()
	finish()
	for verdict := range r.rests() {
		if strings.HasPrefix(verdict, "failed") || strings.HasPrefix(verdict, "running") {
			r.Errorf("there are runs %s", verdict)
		}
	}
}

// refuses is nil once a program says that the schema is not for it.
func refuses(m *member) error {
	switch err := ready(m.addr); {
	case err == nil:
		return fmt.Errorf("%s is ready", m.name)
	case !strings.Contains(err.Error(), "use the newer program"):
		return fmt.Errorf("%s says nothing of the schema: %w", m.name, err)
	}
	return nil
}

// next does what an expand migration of the release after this one does: columns, tables and indexes everywhere.
func (r *rollout) next() {
	r.Helper()
	rows, err := r.conn.Query(r.Context(), `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
		AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'goose_db_version' ORDER BY 1`)
	require.NoError(r, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r, err)
	statements := []string{`CREATE TABLE next_things (id bigint PRIMARY KEY, what text)`}
	for _, table := range tables {
		statements = append(statements, `ALTER TABLE `+table+` ADD COLUMN next_note text, ADD COLUMN next_count bigint DEFAULT 0`,
			`CREATE INDEX `+table+`_next_note ON `+table+` (next_note)`)
	}
	statements = append(statements, `INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version`)
	for _, statement := range statements {
		_, err := r.conn.Exec(r.Context(), statement)
		require.NoError(r, err, statement)
	}
}

func TestTheseProgramsWorkOnTheNextSchemaWhileItIsMadeAndAreReplacedWithoutAFailedRun(t *testing.T) {
	t.Parallel()
	release, err := programs()
	require.NoError(t, err)
	r := newRollout(t, testkit.Database(t, db.Up))
	r.roll(release, release, r.next)

	_, err = r.conn.Exec(t.Context(), `CREATE OR REPLACE FUNCTION schema_compatible_from() RETURNS bigint LANGUAGE sql IMMUTABLE
		AS 'SELECT max(version_id) FROM goose_db_version'`)
	require.NoError(t, err)
	testkit.Eventually(t, 30*time.Second, func() error {
		for _, m := range r.fleet {
			if err := refuses(m); err != nil {
				return err
			}
		}
		return nil
	})
	late := r.start(release, "semantic")
	require.Error(t, late.cmd.Wait())
	require.Contains(t, late.log.String(), "use the newer program")
}

// make test-upgrade FROM=<git ref> builds that release and names its folder; without it these programs replace themselves.
func TestAnEarlierReleaseIsUpgradedUnderSyncs(t *testing.T) {
	after, err := programs()
	require.NoError(t, err)
	before := cmp.Or(os.Getenv("UPGRADE_FROM"), after)
	r := newRollout(t, testkit.Postgres(t))
	migrate := func(release string) (version int64) {
		cmd := exec.Command(filepath.Join(release, "echomind"), "migrate", "up")
		cmd.Env = append(os.Environ(), "DATABASE_URL="+r.database)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT max(version_id) FROM goose_db_version`).Scan(&version))
		return version
	}
	from := migrate(before)
	t.Logf("from schema %d to %d", from, db.Version())
	r.roll(before, after, func() { require.Equal(t, db.Version(), migrate(after)) })
}
