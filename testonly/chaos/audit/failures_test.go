package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
)

const (
	own      = "failures are the source's"
	disabled = "DISABLED by policy or user"
)

func TestAFailureThatIsNotTheSourcesIsFound(t *testing.T) {
	for trouble, kinds := range map[string]struct{ right, wrong string }{
		"":                {"", "transient"},
		source.Unreadable: {"", "permanent"},
		source.Poison:     {"", "transient"},
		source.Fail:       {"transient", "permanent"},
		source.Panic:      {"transient", "permanent"},
		source.Permanent:  {"permanent", "transient"},
		source.Hang:       {"transient", "permanent"},
		source.Kill:       {"rescue", "transient"},
	} {
		t.Run("trouble "+trouble, func(t *testing.T) {
			l := newLab(t)
			cfg := source.Config{Trouble: trouble, Every: 1}
			if kinds.right != "" {
				id := l.add("synthetic", cfg)
				l.claim(id)
				l.pickUp(id, -time.Second)
				l.fail(id, kinds.right)
				require.Empty(t, l.audit(own).Violations)
			}
			id := l.add("synthetic", cfg)
			l.claim(id)
			l.pickUp(id, -time.Second)
			l.fail(id, kinds.wrong)
			l.finds(own, "failed: ")
		})
	}
}

func TestAConnectorThatFailsAtWillHasLostNothing(t *testing.T) {
	for kind, violated := range map[string]bool{"transient": false, "permanent": false, "rescue": true, "lost": true} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			l.claim(id)
			l.pickUp(id, -time.Second)
			l.fail(id, kind)
			l.finds(own, "failed: ")
			l.opts.FailAtWill = map[int32]bool{id: true}
			require.Equal(t, violated, l.audit(own).Violated > 0)
		})
	}
}

func TestAStatementThatTookTooLongIsAFailureOfAJobOfTheSystemAlone(t *testing.T) {
	l := newLab(t)
	fails := func(id int32, said string) {
		l.claim(id)
		l.pickUp(id, -time.Second)
		l.do(`SELECT moves.fail(id, try_id, 'transient', $2) FROM open_runs WHERE connector_id = $1`, id, said)
	}
	ofSystem := func(kind string) (id int32) {
		l.do(`SELECT moves.add_system_job($1, $1, 60)`, kind)
		l.ask(&id, `SELECT id FROM connectors WHERE type = $1`, kind)
		return id
	}
	const late = "ERROR: canceling statement due to statement timeout (SQLSTATE 57014)"
	fails(ofSystem("tidy"), late)
	require.Empty(t, l.audit(own).Violations)
	fails(l.add("synthetic", source.Config{}), late)
	require.Equal(t, 1, l.audit(own).Violated)
	fails(ofSystem("sweep"), "it failed")
	require.Equal(t, 2, l.audit(own).Violated)
}

func TestLossesAreFoundWhereTheHarnessHasLostNothing(t *testing.T) {
	for kind, allowed := range map[string]audit.Options{"rescue": {WorkersLost: true}, "lost": {MessagesLost: true}} {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t)
			id := l.add("synthetic", source.Config{})
			l.claim(id)
			l.pickUp(id, -time.Second)
			l.fail(id, kind)
			l.finds(own, "lost")
			l.opts = allowed
			require.Empty(t, l.audit(own).Violations)
		})
	}
}

func TestAFailureOfAnotherSourceIsFoundUnlessItHangs(t *testing.T) {
	l := newLab(t)
	add := func(url string) (id int32) {
		l.ask(&id, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
			VALUES ('one', 'web', 1, jsonb_build_object('url', $1::text), 0) RETURNING id`, url)
		return id
	}
	for _, url := range []string{"http://127.0.0.1/hang/", "http://127.0.0.1/site/"} {
		require.Empty(t, l.audit(own).Violations)
		id := add(url)
		l.claim(id)
		l.pickUp(id, -time.Second)
		l.fail(id, "transient")
	}
	l.finds(own, "transient failure")
}

func TestAFailureOfWhatOnlyWaitsIsFound(t *testing.T) {
	l := newLab(t)
	l.opts = audit.Options{WorkersLost: true, NeverFail: []string{"capped"}}
	fail := func(id int32) {
		l.claim(id)
		l.pickUp(id, -time.Second)
		l.rescue(id)
	}
	fail(l.add("synthetic", source.Config{}))
	starved := l.add("capped", source.Config{})
	l.finish(starved, l.claim(starved), 1)
	l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, starved)
	f := l.audit("nothing starved is failed")
	require.Empty(t, f.Violations)
	require.Equal(t, 1, f.Checked)
	fail(starved)
	l.finds("nothing starved is failed", "worker lost")
	l.opts.CommitsLost = true
	require.Empty(t, l.audit("nothing starved is failed").Violations)
}

func TestWhoIsDisabledByTooManyFailuresOrByTheUserIsInOrder(t *testing.T) {
	l := newLab(t)
	l.opts = audit.Options{WorkersLost: true, MessagesLost: true}
	id := l.add("synthetic", source.Config{Trouble: source.Fail, Every: 1})
	l.do(`UPDATE connectors SET max_retries = 3`)
	l.claim(id)
	l.pickUp(id, -time.Second)
	l.rescue(id) // 1
	l.pickUp(id, time.Hour)
	l.fail(id, "transient") // 2
	l.claim(id)
	l.do(`SELECT moves.release(id, NULL) FROM open_runs`) // counts nothing
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`UPDATE open_runs SET stored = 1, checkpoint_no = 1, advanced = true`)
	l.do(`SELECT moves.fail(id, try_id, 'too_long', 'it takes its time') FROM open_runs`) // nor does one that has come further
	l.claim(id)
	l.pickUp(id, -time.Second)
	l.fail(id, "lost") // nor does that
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.fail(id, "transient") // 3
	for _, standing := range []string{"ACTIVE", "PENDING", "SYNCING"} {
		other := l.add("synthetic", source.Config{})
		if standing != "ACTIVE" {
			l.claim(other)
		}
		if standing == "SYNCING" {
			l.pickUp(other, time.Hour)
		}
		l.disable(other)
	}
	f := l.audit(disabled)
	require.Empty(t, f.Violations)
	require.Equal(t, 4, f.Checked)
}

func TestARunOfWhichAMessageWasForgedMayFailWhereTheHarnessForgesSome(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.do(`SELECT moves.fail(id, try_id, 'transient', 'the message is refused: it is not of its run: connector_id 7') FROM open_runs`)
	l.finds(own, "transient failure")
	l.opts.Forged = true
	require.Empty(t, l.audit(own).Violations)
	l.opts.NeverFail = []string{"synthetic"}
	require.Empty(t, l.audit("nothing starved is failed").Violations)
	l.opts.Forged = false
	require.Equal(t, 1, l.audit("nothing starved is failed").Violated)
}

func TestWhoIsDisabledTooEarlyIsFound(t *testing.T) {
	l := newLab(t)
	l.do(`CREATE OR REPLACE FUNCTION moves.failed(c connectors, permanent boolean) RETURNS connectors LANGUAGE plpgsql AS $$
		BEGIN
			c.failure_count := c.failure_count + 1;
			c.status := 'DISABLED';
			c.due_reason := NULL;
			RETURN c;
		END $$`)
	id := l.add("synthetic", source.Config{Trouble: source.Fail, Every: 1})
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.fail(id, "transient")
	l.finds(disabled, "after 1 failures of 5")
}

func TestACountOfFailuresThatTheLedgerDoesNotBearOutIsFound(t *testing.T) {
	l := newLab(t)
	id := l.add("synthetic", source.Config{Trouble: source.Fail, Every: 1})
	l.force(`UPDATE connectors SET failure_count = 4`)
	l.claim(id)
	l.pickUp(id, time.Hour)
	l.fail(id, "transient")
	l.finds(disabled, "the ledger has 1 in a row")
}

// A subscriber may say that it has sent what it has not; one that has said nothing yet, or has not even picked the run up, has lost nothing.
func TestARunOfASubscriberMayBeLostInTransitOnceItHasSaidThatItHasSentAll(t *testing.T) {
	l := newLab(t)
	l.do(`INSERT INTO connector_types (name) VALUES ('foreign')`)
	id := l.add("foreign", source.Config{})
	run := func(drained bool) {
		l.trigger()
		l.claim(id)
		l.do(`SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM open_runs WHERE connector_id = $1`, id)
		if drained {
			l.do(`UPDATE open_runs SET drain_seq = 1 WHERE connector_id = $1`, id)
		}
		l.fail(id, "lost")
	}
	run(true)
	l.finds(own, "lost in transit")
	l.opts.Foreign = []string{"foreign"}
	require.Empty(t, l.audit(own).Violations)
	run(false)
	require.Equal(t, 1, l.audit(own).Violated)
	l.trigger()
	l.claim(id)
	l.fail(id, "lost")
	require.Equal(t, 2, l.audit(own).Violated)
	l.opts.MessagesLost = true
	require.Empty(t, l.audit(own).Violations)
}
