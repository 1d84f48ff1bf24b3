package db_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
)

const allow = `SELECT moves.trigger_sync($1, allow_deletions => true)`

// permitted is a connector whose open run was picked up with the permission to delete many documents.
func (b *base) permitted() int32 {
	b.Helper()
	id := b.synced()
	b.exec(allow, id)
	b.syncing(id)
	b.holds(id, `c.deletions_allowed_at IS NULL AND r.deletions_allowed_at = r.trigger_requested_at`)
	return id
}

// allowed asks as a worker does.
func (b *base) allowed(want bool, id int32) {
	b.Helper()
	if got := one[bool](b, `SELECT moves.deletions_allowed(id, try_id) FROM open_runs WHERE connector_id = $1`, id); got != want {
		b.Errorf("may it delete many documents: %v, want %v", got, want)
	}
}

// Of every move out of PENDING or SYNCING it is said here what becomes of the permission.
func TestAPermissionToDeleteLastsUntilARunThatHasItCompletes(t *testing.T) {
	b := newBase(t)
	spent := []string{"finish", "end_job", "skip", "skip_all", "complete", "complete_all"}
	kept := []string{"pick_up", "pick_up_all", "release", "postpone", "fail", "complete, cut", "complete_all, cut", "complete, cut to wait",
		"complete_all, cut to wait", "rescue", "abandon",
		"fail_lost_in_transit", "fail_not_taken"}
	withdrawn := []string{"disable", "cancel", "fail_refused", "fail_refused, the last time", "fail, the last time", "complete, cut the last time", "complete_all, cut the last time",
		"abandon, the last time", "fail_not_taken, the last time"}
	b.endEach(allow, func(name string, from lifecycle.Status, id int32, run uuid.UUID) {
		switch stands := one[bool](b, `SELECT deletions_allowed_at IS NOT NULL FROM connectors WHERE id = $1`, id); {
		case slices.Contains(spent, name), slices.Contains(withdrawn, name):
			if stands {
				t.Errorf("%s from %s: the next run may delete many documents", name, from)
			}
		case !slices.Contains(kept, name):
			t.Errorf("%s: say what becomes of the permission", name)
		case name == "pick_up" || name == "pick_up_all":
			b.allowed(true, id)
		case !stands:
			t.Errorf("%s from %s: the permission is lost", name, from)
		}
		if n := one[int](b, `SELECT count(*) FROM runs WHERE id = $1 AND (deletions_allowed_at IS NULL) = $2`,
			run, from == lifecycle.Syncing); n != 0 {
			t.Errorf("%s from %s: the ledger does not say whether it was allowed to delete", name, from)
		}
	})
}

func TestAFailureThatIsNotTriedAgainTakesThePermissionBack(t *testing.T) {
	b := newBase(t)
	fail := `SELECT moves.fail(id, try_id, 'permanent', 'no') FROM open_runs WHERE connector_id = $1`
	id := b.permitted()
	b.moves("true", fail, id)
	b.holds(id, `c.next_sync_at IS NULL AND c.deletions_allowed_at IS NULL AND r.deletions_allowed_at IS NOT NULL`)

	again := b.permitted()
	b.exec(`SELECT moves.trigger_sync($1)`, again) // the next try
	b.moves("true", fail, again)
	b.holds(again, `c.due_reason = 'manual' AND c.deletions_allowed_at = r.deletions_allowed_at`)
}

func TestAListingThatGoesOnKeepsThePermission(t *testing.T) {
	b := newBase(t)
	const through, goesOn = `{"whole": true}`, `{"whole": true, "seen": {}}`
	for end, call := range map[string]string{
		"completed": `SELECT verdict FROM moves.complete($1)`,
		"skipped":   `SELECT 'skipped' FROM moves.skip($1, (SELECT try_id FROM open_runs WHERE id = $1), NULL, NULL, 0)`,
	} {
		for listing, stays := range map[string]bool{through: false, goesOn: true} {
			id := b.permitted()
			b.force(`UPDATE connectors SET listing = $2 WHERE id = $1`, id, listing)
			run := b.run(id)
			if end == "completed" {
				b.whole(run, 1, "")
			}
			b.moves(end, call, run)
			b.holds(id, `c.listing IS NOT NULL AND c.deletions_allowed_at IS NOT DISTINCT FROM `+
				map[bool]string{true: `r.deletions_allowed_at`, false: `NULL`}[stays])
			b.syncing(id)
			b.allowed(stays, id)
			if end == "completed" { // the run that ends it
				b.ends(id)
			} else {
				b.moves("true", `SELECT moves.skip(id, try_id, '{}', NULL, 0) FROM open_runs WHERE connector_id = $1`, id)
			}
			b.holds(id, `c.listing IS NULL AND c.deletions_allowed_at IS NULL`)
		}
	}
}

func TestAPermissionOfNowIsNotTheRunsThatReadsAlready(t *testing.T) {
	b := newBase(t)
	id := b.in("SYNCING")
	b.exec(allow, id)
	b.allowed(false, id)
	b.ends(id)
	b.holds(id, `c.due_reason = 'manual' AND c.deletions_allowed_at IS NOT NULL AND r.deletions_allowed_at IS NULL`)
	b.syncing(id)
	b.allowed(true, id)

	// Nor does the end of a run take away what was allowed while it read.
	b.exec(allow, id)
	b.ends(id)
	b.holds(id, `c.deletions_allowed_at > r.deletions_allowed_at`)
	b.complete(id)
	b.holds(id, `c.deletions_allowed_at IS NULL AND c.due_reason = 'schedule' AND r.deletions_allowed_at IS NOT NULL`)
	b.syncing(id)
	b.allowed(false, id)
}

func TestAPermissionBeforeThePickUpIsTheRuns(t *testing.T) {
	b := newBase(t)
	id := b.in("PENDING")
	b.exec(allow, id)
	b.exec(`SELECT moves.trigger_sync($1)`, id) // takes nothing back
	movestest.PickUp(t, b.conn, id, b.run(id), time.Minute)
	b.allowed(true, id)
}

func TestAPlainTriggerAllowsNoDeletions(t *testing.T) {
	b := newBase(t)
	for _, plain := range []string{`SELECT moves.trigger_sync($1)`, `SELECT moves.trigger_sync($1, false)`, `SELECT moves.trigger_sync($1, NULL)`, trigger} {
		id := b.synced()
		b.exec(plain, id)
		b.syncing(id)
		b.allowed(false, id)
	}
	b.refused("connectors_trigger_disabled", allow, b.in("DISABLED"))
	b.moves("nothing", `SELECT moves.trigger_sync(-1, true)`)
}

func TestAChangeTakesThePermissionBack(t *testing.T) {
	b := newBase(t)
	for _, change := range changes {
		for _, id := range []int32{b.synced(), b.in("PENDING"), b.permitted()} {
			b.exec(allow, id)
			b.exec(`UPDATE connectors SET `+change+` WHERE id = $1`, id)
			b.holds(id, `c.deletions_allowed_at IS NULL`)
			b.syncing(id)
			b.allowed(false, id)
		}
	}
	id := b.synced()
	b.exec(allow, id)
	b.exec(`UPDATE connectors SET name = 'other', max_retries = 9, refresh_freq_minutes = 5, deletion_guard = false WHERE id = $1`, id)
	b.holds(id, `c.deletions_allowed_at IS NOT NULL`)
}

func TestAConnectorWithoutADeletionGuardNeverAsks(t *testing.T) {
	b := newBase(t)
	id := b.in("SYNCING")
	run, version := b.run(id), one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id)
	b.exec(`UPDATE connectors SET deletion_guard = false WHERE id = $1`, id)
	b.allowed(true, id)
	if b.run(id) != run || one[int64](b, `SELECT config_version FROM connectors WHERE id = $1`, id) != version {
		t.Error("it counts as another configuration")
	}
	b.exec(`UPDATE connectors SET deletion_guard = true WHERE id = $1`, id)
	b.allowed(false, id)
}

func TestOnlyTheTryThatReadsMayAskWhetherItMayDelete(t *testing.T) {
	b := newBase(t)
	id := b.permitted()
	run := b.run(id)
	for _, try := range []uuid.UUID{uuid.New(), run} {
		_, err := b.conn.Exec(t.Context(), `SELECT moves.deletions_allowed($1, $2)`, run, try)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "P0002" {
			t.Errorf("another try is answered: %v", err)
		}
	}
}

func TestNobodyAllowsDeletionsButByTheMove(t *testing.T) {
	b := newBase(t)
	id := b.synced()
	b.refused("connectors_moved_only", `UPDATE connectors SET deletions_allowed_at = clock_timestamp() WHERE id = $1`, id)
	b.exec(allow, id)
	b.refused("connectors_moved_only", `UPDATE connectors SET deletions_allowed_at = NULL WHERE id = $1`, id)
	added := one[int32](b, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, deletions_allowed_at)
		VALUES ('docs', 'web', 1, 60, now()) RETURNING id`)
	b.holds(added, `c.deletions_allowed_at IS NULL AND c.deletion_guard`)
}
