package db_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
)

func TestJobsAreFoundByTheNameThatTheyHave(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	is := func(want string) {
		t.Helper()
		if got := one[string](b, `SELECT coalesce(string_agg(j.name, ',' ORDER BY j.name, j.connector_id), '') FROM scheduled_jobs j`); got != want {
			t.Errorf("jobs are %q, want %q", got, want)
		}
		if n := one[int](b, `SELECT count(*) FROM (SELECT j.name, j.connector_id FROM scheduled_jobs j
			FULL JOIN (SELECT c.name, c.id FROM connectors c JOIN connector_types t ON t.name = c.type WHERE t.kind = 'job') c ON (c.name, c.id) = (j.name, j.connector_id)
			WHERE c.id IS NULL OR j.connector_id IS NULL) d`); n != 0 {
			t.Errorf("%d jobs are there alone, or are not there", n)
		}
	}
	b.exec(`INSERT INTO connectors (name, type, user_id) VALUES ('a', 'word_count', 7), ('a', 'word_count', 8), ('x', 'web', 7), ('b', 'word_count', 7)`)
	is("a,a,b")
	b.systemJob()
	is("a,a,b,old weeks")
	b.exec(`UPDATE connectors SET name = 'c' WHERE name = 'a' AND user_id = 8`)
	b.exec(`UPDATE connectors SET name = 'y' WHERE type = 'web'`)
	is("a,b,c,old weeks")
	b.exec(`DELETE FROM connectors WHERE name IN ('b', 'y')`)
	is("a,c,old weeks")
	b.exec(`TRUNCATE connectors`)
	is("")
}

// A page of jobs, one of a name, and what became of one do not read what tens of thousands of other connectors are, or have done.
func TestALookForJobsReadsNothingOfOtherConnectors(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	b.exec(`INSERT INTO connectors (id, name, type, user_id) SELECT n, 'c' || n, CASE WHEN n % 100 = 0 THEN 'word_count' ELSE 'web' END, 10 + n / 20 FROM generate_series(1, 50000) n`)
	b.exec(`INSERT INTO scheduled_jobs SELECT c.name, c.id FROM connectors c WHERE c.type = 'word_count'`)
	b.exec(`INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, config_version)
		SELECT gen_random_uuid(), 100 + n % 1000, 'word_count', 'schedule', m.at, m.at, m.at, 'completed', 1
		FROM generate_series(1, 50000) n, LATERAL (SELECT clock_timestamp() - make_interval(secs => n) AS at) m`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE connectors, scheduled_jobs, runs`)
	for _, role := range []identity.Role{identity.Admin, identity.Superadmin} {
		b.serves(identity.Who{UserID: 7, Role: role}, func(tx pgx.Tx) {
			for what, sql := range map[string]string{
				"page": `SELECT * FROM api.connectors WHERE id = ANY (ARRAY(SELECT j.connector_id FROM api.scheduled_jobs j
					WHERE j.name >= 'c500' AND (j.name, j.connector_id) > ('c500', 0) ORDER BY j.name, j.connector_id LIMIT 26)) ORDER BY name, id`,
				"name":       `SELECT j.connector_id FROM api.scheduled_jobs j WHERE j.name = 'c5000' ORDER BY j.connector_id LIMIT 11`,
				"statistics": `SELECT * FROM api.job_statistics(100, clock_timestamp() - interval '7 days', 10000)`,
			} {
				if n, plan := buffersOf(t, tx, sql); n > 600 {
					t.Errorf("%s by a %s: %d buffers, want at most 600:\n%s", what, role, n, plan)
				} else {
					t.Logf("%s by a %s: %d buffers", what, role, n)
				}
			}
		})
	}
}

// Whose views are asked says nothing to the others: chains by their views, and keys by their trigger.
func TestTheViewOfChainsWritesWhatItsViewerMayWrite(t *testing.T) {
	b := newBase(t)
	mine := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	theirs := one[int32](b, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 8) RETURNING id`)
	public := one[int32](b, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 8, 'org') RETURNING id`)
	for user, allowed := range map[int32]map[[2]int32]bool{
		7: {{mine, public}: true, {mine, theirs}: false, {public, mine}: false, {theirs, public}: false},
		8: {{theirs, public}: true, {mine, public}: false, {public, theirs}: false},
	} {
		b.serves(identity.Who{UserID: user, Role: identity.User}, func(tx pgx.Tx) {
			for of, want := range allowed {
				if got := may(b, tx, `INSERT INTO api.chained (connector_id, upstream_id, accepts) VALUES ($1, $2, 'completed')`, of[0], of[1]); got != want {
					t.Errorf("user %d has %d run after %d: %v", user, of[0], of[1], got)
				}
			}
			if code := tries(b, tx, `UPDATE api.changeable SET concurrency_keys = '{a}'`); code != "42501" {
				t.Errorf("user %d names a key: %q", user, code)
			}
		})
	}
}
