package semantic

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

// sluggish makes Postgres take for ever over each chunk that holds the word slow, or end its statement as its own timeout does.
func (f *flow) sluggish(does string) {
	f.exec(`CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + does + `; RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER take_time BEFORE INSERT ON chunks FOR EACH ROW WHEN (NEW.text LIKE '%slow%') EXECUTE FUNCTION take_time()`)
}

func TestADocumentThatPostgresIsTooSlowForIsGivenUpAfterItsTriesAndAllOthersAreStored(t *testing.T) {
	for name, does := range map[string]string{
		"our deadline":        `PERFORM pg_sleep(600)`,
		"its statement bound": `RAISE 'canceling statement due to statement timeout' USING ERRCODE = '57014'`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.config.Workers, f.storeTimeout, f.slowPause = 1, 2*time.Second, time.Second
			f.sluggish(does)
			bad := f.synced(map[string]string{"bad": "old"}).again()
			other := f.syncing()
			f.publishes(bad.doc(1, "bad", "slow"), bad.doc(2, "fine", "banana"), bad.completed(2), other.doc(1, "a", "apple"), other.completed(1))
			f.runs()
			f.becomes(other, "completed")
			f.becomes(bad, "completed")
			f.empties()
			letters := f.letters()
			require.Len(t, letters, 1)
			require.Equal(t, []string{"1", "2"},
				[]string{letters[0].Header.Get(topology.HeaderNumber), letters[0].Header.Get(topology.HeaderTries)})
			require.Contains(t, letters[0].Header.Get(topology.HeaderReason), errSlow.Error())
			documents := strings.Split(bad.documents(), "\n")
			require.Contains(t, documents[0], "bad | failed |")
			require.Contains(t, documents[0], "| old")
			require.Equal(t, line("fine", "banana"), documents[1])
			require.Equal(t, line("a", "apple"), other.documents())
		})
	}
}

// redelivered has what is queued delivered once before, so that each message is handled alone and its tries are written down.
func (f *flow) redelivered(n int) {
	f.t.Helper()
	for _, msg := range f.pulled(n) {
		require.NoError(f.t, msg.Nak())
	}
}

func TestAPostgresThatFreezesWhileADocumentIsStoredIsAWait(t *testing.T) {
	for name, deliver := range map[string]func(*flow){"fresh": func(*flow) {}, "redelivered": func(f *flow) { f.redelivered(3) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url := testkit.PrivatePostgres(t, db.Up)
			f := newFlowOn(t, url)
			f.storeTimeout = 3 * time.Second
			c := f.syncing()
			f.publishes(c.doc(1, "a", "apple"), c.doc(2, "b", "banana"), c.completed(2))
			deliver(f)
			g := newGate("apple")
			atWork["storing"](f, g)
			f.runs()
			await(t, "storing", g.inside)
			thaw := testkit.FreezePostgres(t, server)
			close(g.open)
			f.waitsAtLeast(f.config.MaxTries + 1)
			thaw()
			f.becomes(c, "completed")
			f.empties()
			f.onlyTheTryThatStoredIsCounted()
			require.Equal(t, line("a", "apple")+"\n"+line("b", "banana"), c.documents())
		})
	}
}

// onlyTheTryThatStoredIsCounted fails the test where a wait was counted as a try, or anything was given up.
func (f *flow) onlyTheTryThatStoredIsCounted() {
	f.t.Helper()
	require.Zero(f.t, f.count("message_tries WHERE tries > 1"))
	require.Empty(f.t, f.letters())
}

// So does one whose replica is away: it answers every question, and no commit.
func TestAPostgresThatAnswersAndCommitsNothingIsAWait(t *testing.T) {
	f := newFlow(t)
	f.storeTimeout = 3 * time.Second
	f.exec(`CREATE TABLE replica_is_away (since timestamptz)`)
	f.exec(`CREATE FUNCTION await_replica() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
		IF EXISTS (SELECT FROM replica_is_away) THEN PERFORM pg_sleep(600); END IF; RETURN NULL; END $$`)
	for _, table := range []string{"open_runs", "message_tries"} {
		f.exec(`CREATE CONSTRAINT TRIGGER await_replica AFTER INSERT OR UPDATE ON ` + table + ` DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION await_replica()`)
	}
	c := f.syncing()
	f.publishes(c.doc(1, "a", "apple"), c.completed(1))
	f.redelivered(2)
	g := newGate("apple")
	atWork["storing"](f, g)
	f.runs()
	await(t, "storing", g.inside)
	f.exec(`INSERT INTO replica_is_away VALUES (now())`)
	close(g.open)
	f.waitsAtLeast(f.config.MaxTries + 1)
	f.exec(`DELETE FROM replica_is_away`)
	f.becomes(c, "completed")
	f.empties()
	f.onlyTheTryThatStoredIsCounted()
	require.Equal(t, line("a", "apple"), c.documents())
}

// Else what one worker was storing when an outage ended would be left alone for a minute, and blamed.
func TestAStoreDuringWhichPostgresWasAwayIsNotCalledSlow(t *testing.T) {
	f := newFlow(t)
	f.storeTimeout = time.Second
	f.sluggish(`PERFORM pg_sleep(600)`)
	c := f.syncing()
	stores := func() error {
		return f.process(ctx, []delivery{{msg: silentMessage{}, request: c.doc(1, "bad", "slow"), try: c.of()}})
	}
	f.writing = func([]Piece) error { f.unansweredAt.Store(time.Now().UnixNano()); return nil }
	require.True(t, isWait(stores()))
	f.writing = nil
	require.ErrorIs(t, stores(), errSlow, "the next time it is the document")
}

func TestAPostgresThatGaveOneStoreNoAnswerWasAwayForEveryStoreMeanwhile(t *testing.T) {
	f := newFlow(t)
	c := f.syncing()
	began := time.Now()
	slow := func(began time.Time) error { return f.asTooSlow(ctx, c.of(), 1, began, context.DeadlineExceeded) }
	holder, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = holder.Exec(ctx, `LOCK TABLE message_tries`)
	require.NoError(t, err)
	require.NotErrorIs(t, slow(began), errSlow)
	require.NoError(t, holder.Rollback(ctx))
	require.NotErrorIs(t, slow(began), errSlow, "it answers again")
	require.ErrorIs(t, slow(time.Now()), errSlow)
}
