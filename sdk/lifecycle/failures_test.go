//go:build !race

package lifecycle_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

// endings are the ways in which a run may end, by the name that docs/reliability.md gives them.
var endings = map[string]func(*fixture) trip{
	"all documents stored": func(f *fixture) trip {
		c := f.stored(2)
		_, err := f.Complete(ctx, c.try.Run)
		require.NoError(f.t, err)
		return c
	},
	"nothing had changed": func(f *fixture) trip {
		c := f.stored(0)
		_, err := f.Complete(ctx, c.try.Run)
		require.NoError(f.t, err)
		return c
	},
	"a job's condition fails, before a run":      func(f *fixture) trip { return f.asked(`SELECT moves.fail_conditions(%s)`, "problem") },
	"a job's condition is not met, before a run": func(f *fixture) trip { return f.asked(`SELECT moves.plan(%s)`, "unmet") },
	"error that passes": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Fail(ctx, c.try, lifecycle.Transient, "no answer"))
		return c
	},
	"error that stays": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Fail(ctx, c.try, lifecycle.Permanent, "gone"))
		return c
	},
	"a setting of the service does not allow it": func(f *fixture) trip {
		c := f.syncing()
		f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
		require.NoError(f.t, f.FailRefused(ctx, c.try, "not in an allowed root", "ab12"))
		return c
	},
	"failure number `max_retries` in a row": func(f *fixture) trip {
		c := f.syncing()
		f.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, c.id)
		require.NoError(f.t, f.Fail(ctx, c.try, lifecycle.Transient, "no answer"))
		return c
	},
	"took longer than it may": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Fail(ctx, c.try, lifecycle.TooLong, "too long"))
		return c
	},
	"took longer than it may, having passed a checkpoint that brought it further": func(f *fixture) trip {
		c := f.syncing()
		f.checkpoints(c, 1)
		require.True(f.t, f.advances(c))
		require.NoError(f.t, f.Fail(ctx, c.try, lifecycle.TooLong, "too long"))
		return c
	},
	"worker lost, the first failure": func(f *fixture) trip {
		c := f.syncing()
		f.lose(c)
		require.Equal(f.t, 1, f.rescue())
		return c
	},
	"worker lost, again": func(f *fixture) trip {
		c := f.syncing()
		f.exec(`UPDATE connectors SET max_retries = 9 WHERE id = $1`, c.id)
		c.failed = 1
		f.force(`UPDATE connectors SET failure_count = $2 WHERE id = $1`, c.id, c.failed)
		f.exec(`UPDATE open_runs SET fails_if_lost = true WHERE id = $1`, c.try.Run)
		f.lose(c)
		require.Zero(f.t, f.rescue())
		require.Equal(f.t, 1, f.abandon())
		return c
	},
	"documents lost in transit": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Drain(ctx, c.try, 7))
		require.Equal(f.t, 1, one[int](f, `SELECT count(*)::integer FROM moves.fail_lost_in_transit(ARRAY[$1::uuid], 8, 9)`, c.try.Run))
		return c
	},
	"message taken by NATS 10 times, gone each time, and no worker began": func(f *fixture) trip {
		c := f.pending()
		f.exec(`UPDATE open_runs SET not_taken = 10 WHERE id = $1`, c.try.Run)
		require.Equal(f.t, 1, one[int](f, `SELECT count(*)::integer FROM moves.fail_not_taken(10)`))
		return c
	},
	"a listing that is not to be believed": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Fail(ctx, c.try, lifecycle.Relist, "it shows little"))
		require.Equal(f.t, "{}", of[string](f, c, "state::text"))
		return c
	},
	"the source asked to wait, for longer than a run waits": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Postpone(ctx, c.try, 3*time.Hour, "come back later"))
		return c
	},
	"the same, and the run has sent something: once that is stored": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.PostponeWhenStored(ctx, c.try, 2, 7, 3*time.Hour, "come back later"))
		require.Equal(f.t, "SYNCING", of[string](f, c, "status"))
		f.exec(`UPDATE open_runs SET stored = total, whole = true WHERE id = $1`, c.try.Run)
		ended, err := f.Complete(ctx, c.try.Run)
		require.NoError(f.t, err)
		require.Equal(f.t, lifecycle.Superseded, ended.Verdict)
		return c
	},
	"the same, and something of that is lost in transit": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.PostponeWhenStored(ctx, c.try, 2, 7, 3*time.Hour, "come back later"))
		require.Equal(f.t, 1, one[int](f, `SELECT count(*)::integer FROM moves.fail_lost_in_transit(ARRAY[$1::uuid], 8, 9)`, c.try.Run))
		return c
	},
	"clean stop of the worker": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Release(ctx, c.try))
		return c
	},
	"changed by its user": func(f *fixture) trip {
		c := f.syncing()
		f.exec(`UPDATE connectors SET config = '{"a": 1}' WHERE id = $1`, c.id)
		return c
	},
	"cancelled by its user": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Cancel(ctx, c.try.Run, "cancelled by ada"))
		return c
	},
	"disabled by its user": func(f *fixture) trip {
		c := f.syncing()
		require.NoError(f.t, f.Disable(ctx, c.id))
		return c
	},
	"deleted by its user": func(f *fixture) trip {
		c := f.syncing()
		f.exec(`DELETE FROM connectors WHERE id = $1`, c.id)
		return c
	},
}

func TestTheFailureTableIsWhatTheDatabaseDoes(t *testing.T) {
	f := newFixture(t)
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| how a run ends |")
	require.True(t, found, "docs/reliability.md has no failure table")
	documented := map[string]string{}
	for _, line := range strings.Split(table, "\n")[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		documented[name] = strings.TrimSuffix(rest, " |")
	}
	seen := map[string]string{}
	for name, end := range endings {
		seen[name] = f.whatBecameOf(end(f))
	}
	require.Equal(t, seen, documented)
}

// asked is a job whose slot has come, and whose condition has said something of it.
func (f *fixture) asked(move, said string) trip {
	c := f.syncing()
	f.exec(`SELECT moves.finish($1, $2)`, c.try.Run, c.try.ID)
	f.exec(`UPDATE connector_types SET kind = 'job' WHERE name = (SELECT type FROM connectors WHERE id = $1)`, c.id)
	f.exec(`INSERT INTO conditions (name, query) VALUES ('x', 'SELECT false') ON CONFLICT DO NOTHING`)
	f.exec(`UPDATE connectors SET condition = 'x', refresh_freq_minutes = 60 WHERE id = $1`, c.id)
	f.force(`UPDATE connectors SET next_sync_at = now(), slot_at = now() WHERE id = $1`, c.id)
	f.exec(fmt.Sprintf(move, `jsonb_build_array(jsonb_build_object('id', $1::int, $2::text, 'condition `+"`x`"+` not met', 'unmet_slot', now()))`), c.id, said)
	f.exec(`SELECT moves.end_unmet(ARRAY[$1::int])`, c.id)
	c.try.Run = one[uuid.UUID](f, `SELECT id FROM runs WHERE connector_id = $1 ORDER BY completed_at DESC LIMIT 1`, c.id)
	return c
}

func (f *fixture) whatBecameOf(c trip) string {
	ledger := run[string](f, c, `status || coalesce(': ' || reason, '')`)
	if one[int64](f, `SELECT count(*) FROM connectors WHERE id = $1`, c.id) == 0 {
		return ledger + " | - | - | -"
	}
	counted := fmt.Sprintf("+%d", of[int32](f, c, "failure_count")-c.failed)
	if counted == "+0" {
		counted = "no"
	}
	if strings.HasPrefix(ledger, "completed") || strings.HasPrefix(ledger, "skipped") {
		counted = "starts anew"
	}
	return fmt.Sprintf("%s | %s | %s | %s", ledger, of[string](f, c, "status"), counted, f.nextTry(c))
}

func (f *fixture) nextTry(c trip) string {
	if of[string](f, c, "status") == "PENDING" {
		return "at once"
	}
	next := of[*time.Time](f, c, "next_sync_at")
	if next == nil {
		return "none"
	}
	switch left := next.Sub(one[time.Time](f, `SELECT clock_timestamp()`)); {
	case left <= 0:
		return "at once"
	case of[string](f, c, "due_reason") == "wait", of[string](f, c, "due_reason") == "lost":
		require.InDelta(f.t, 3*time.Hour, left, float64(time.Hour))
		return "at the time that the source named"
	case left < 5*time.Minute:
		return "after 2ⁿ minutes, at most 60, ±20 %"
	default:
		return "as scheduled"
	}
}
