package evidence_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
)

var defaults = evidence.Settings{
	MaxConcurrent: 5, OwnerShare: 80, CheckInterval: time.Minute, WatchInterval: 5 * time.Second, LostGrace: 15 * time.Second,
	ForeignTimeout: 6 * time.Hour,
}

func TestWhyNamesTheCauseInEveryState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		arrange func(*world)
		cause   evidence.Cause
		running bool
		says    []string
	}{
		// PENDING
		{"its message is queued and a worker is free", func(w *world) {
			w.pending("2 seconds")
			w.worker(false) // before the message: the pull takes it, and the next look finds another pull
			w.message(2*time.Second, w.session)
		}, evidence.Queued, false, []string{"1 message of connector.sync.file queued", "this one's"}},
		{"it is queued behind others and all workers are busy", func(w *world) {
			other := uuid.New()
			w.message(time.Minute, other)
			w.worker(true)
			w.others(3, "1 minute")
			w.pending("30 seconds")
			w.message(30*time.Second, w.session)
		}, evidence.QueuedBehindOthers, false, []string{"3 file connectors before it are PENDING", "1 message delivered"}},
		{"the workers of its type fetch other connectors", func(w *world) {
			id := w.others(1, "1 minute")[0]
			var run uuid.UUID
			require.NoError(w.t, w.pool.QueryRow(context.Background(), `SELECT run_id FROM connectors WHERE id = $1`, id).Scan(&run))
			movestest.PickUp(w.t, w.pool, id, run, 10*time.Second)
			w.pending("30 seconds")
			w.message(30*time.Second, w.session)
		}, evidence.QueuedBehindOthers, false, []string{"0 file connectors before it are PENDING"}},
		{"nobody is subscribed", func(w *world) {
			w.pending("30 seconds")
			w.message(30*time.Second, w.session)
		}, evidence.NoSubscriber, false, []string{"connector.sync.file has no consumer"}},
		{"its message is on its way", func(w *world) { w.pending("1 second") },
			evidence.InTransit, false, []string{"no message of connector.sync.file is queued"}},
		{"its message is lost and nothing is queued", func(w *world) { w.pending("1 minute"); w.service("echomind-scheduler") },
			evidence.MessageLost, false, []string{"publishes it again within 5s", "scheduler: connected"}},
		{"its message is lost and a younger one is queued", func(w *world) {
			w.pending("1 minute")
			w.message(10*time.Second, uuid.New())
		}, evidence.MessageLost, false, []string{"once a scheduler runs"}},
		{"the stream is gone", func(w *world) {
			w.pending("1 second")
			require.NoError(w.t, w.js.DeleteStream(context.Background(), topology.SyncStream))
		}, evidence.MessageLost, false, []string{"stream: it does not exist"}},
		{"it is pending and the broker is away", func(w *world) { w.pending("1 minute"); w.away = errors.New("no route") },
			evidence.BrokerAway, false, []string{"NATS: no route"}},
		{"NATS refuses its message", func(w *world) {
			w.pending("1 minute")
			w.exec(`UPDATE open_runs SET publish_error = 'insufficient resources'`)
			w.service("echomind-scheduler")
		}, evidence.BrokerRefuses, false, []string{"NATS takes no message for it: insufficient resources", "publishes it again within 5s"}},
		{"NATS has its message and the acknowledgement was lost", func(w *world) {
			w.worker(false)
			w.pending("2 seconds")
			w.message(2*time.Second, w.session)
			w.exec(`UPDATE open_runs SET publish_error = 'no answer within 5s'`)
		}, evidence.Queued, false, []string{"NATS has not acknowledged its message: no answer within 5s"}},

		// SYNCING
		{"a worker fetches", func(w *world) { w.syncing("10 seconds") },
			evidence.Fetching, true, []string{" has it for another", "and renews it", "of how many is not known yet"}},
		{"its source asked the worker to wait", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`SELECT moves.waits(id, try_id, '5 minutes', 'Microsoft asked us to wait') FROM open_runs`)
		}, evidence.ToldToWait, true, []string{"Microsoft asked us to wait until ", "(a worker is fetching it)"}},
		{"its source asked the worker to wait, and that is over", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`UPDATE open_runs SET waits_until = clock_timestamp() - interval '1 ms', wait_message = 'Microsoft asked us to wait'`)
		}, evidence.Fetching, true, nil},
		{"its source asked another team's service to wait", func(w *world) {
			w.foreign("1 minute")
			w.exec(`SELECT moves.waits(id, try_id, '5 minutes', 'Microsoft asked us to wait') FROM open_runs`)
		}, evidence.ToldToWait, true, []string{"Microsoft asked us to wait until ", "lease: none"}},
		{"it waits for a lock that another run has", func(w *world) {
			w.syncing("10 seconds")
			other := w.others(1, "1 minute")[0]
			w.exec(`SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM open_runs WHERE connector_id = $1`, other)
			w.exec(`SELECT moves.acquire_lock(id, try_id, 'ollama:global', '5 minutes') FROM open_runs WHERE connector_id = $1`, other)
			w.exec(`SELECT moves.acquire_lock($1, $2, 'ollama:global', '5 minutes', true)`, w.try.Run, w.try.ID)
		}, evidence.WaitsForLock, true, []string{"waits for lock ollama:global, held by run ", " of connector 2 for another ", "it asked for ollama:global"}},
		{"another team's service waits for a lock behind others", func(w *world) {
			w.foreign("1 minute")
			w.exec(`SELECT moves.acquire_lock(id, try_id, 'ollama:global', '5 minutes', true) FROM open_runs`)
			w.exec(`DELETE FROM resource_locks`)
			w.exec(`UPDATE open_runs SET has_locks = true`)
			w.exec(`INSERT INTO lock_waiters (key, run_id, connector_id, since, expires_at)
				SELECT 'ollama:global', id, connector_id, clock_timestamp(), clock_timestamp() + interval '5 s' FROM open_runs`)
		}, evidence.WaitsForLock, true, []string{"waits for lock ollama:global, which others have, or asked for before", "lease: none"}},
		{"a worker fetches and it was triggered meanwhile", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, w.id)
		}, evidence.Fetching, true, []string{"then it runs once more"}},
		{"a worker fetches and the document stream is full", func(w *world) {
			w.syncing("10 seconds")
			stream, err := w.js.Stream(context.Background(), topology.DocumentStream)
			require.NoError(w.t, err)
			full := stream.CachedInfo().Config
			full.MaxBytes = 5
			_, err = w.js.UpdateStream(context.Background(), full)
			require.NoError(w.t, err)
		}, evidence.DocumentsFull, true, []string{"document stream: full, 0 of 5 bytes"}},
		{"a worker fetches and semantic stores", func(w *world) {
			w.syncing("10 seconds")
			w.documents(3)
			w.service("echomind-semantic")
		}, evidence.Fetching, true, []string{"3 messages waiting; a worker that has sent much waits"}},
		{"a worker fetches and nobody stores", func(w *world) { w.syncing("10 seconds"); w.documents(3) },
			evidence.NobodyStores, true, []string{"3 messages waiting", "no connection is named echomind-semantic", "nobody stores what is fetched"}},
		{"a worker fetches and the broker is away", func(w *world) { w.syncing("10 seconds"); w.away = errors.New("no route") },
			evidence.BrokerAway, true, []string{"NATS: no route"}},
		{"its worker is lost", func(w *world) { w.syncing("-3 seconds"); w.service("echomind-scheduler") },
			evidence.WorkerLost, false, []string{"it ran out ", "the scheduler gives it to another worker within 5s"}},
		{"its worker is lost long since, and nobody looks", func(w *world) { w.syncing("-10 minutes") },
			evidence.WorkerLost, false, []string{"gives it to another worker within 5s once a scheduler runs"}},
		{"its worker is lost again", func(w *world) {
			w.syncing("-3 seconds")
			movestest.Force(w.t, w.pool, `UPDATE connectors SET failure_count = 1 WHERE id = $1`, w.id)
		}, evidence.WorkerLost, false, []string{"semantic counts a failure within 5s", "once semantic runs"}},
		{"its worker is lost and no failure is allowed", func(w *world) {
			w.syncing("-3 seconds")
			w.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, w.id)
			w.service("echomind-semantic")
		}, evidence.WorkerLost, false, []string{"semantic counts a failure within 5s", "disabled at max_retries"}},
		{"its worker is lost with everything stored", func(w *world) {
			w.syncing("-3 seconds")
			w.exec(`UPDATE open_runs SET total = 2, stored = 2, whole = true WHERE id = $1`, w.session)
		}, evidence.Completing, true, []string{"semantic completes it within 5s once it runs"}},
		{"it drains and semantic stores", func(w *world) {
			w.documents(3)
			w.draining(2)
			w.service("echomind-semantic")
		}, evidence.Storing, true, []string{"at most 2 messages to go", "3 messages waiting, number 1 to 3"}},
		{"it was cut and drains", func(w *world) {
			w.documents(3)
			w.draining(2)
			w.exec(`UPDATE open_runs SET cut = 'it takes its time', total = 2`)
			w.service("echomind-semantic")
		}, evidence.Storing, true, []string{"gave it up: it takes its time", "gave it up (it takes its time)", "goes on from its last checkpoint"}},
		{"it was cut and is stored", func(w *world) {
			w.draining(2)
			w.exec(`UPDATE open_runs SET cut = 'it takes its time', total = 2, stored = 2, whole = true`)
		}, evidence.Completing, true, []string{"gave it up (it takes its time)", "about to fail", "syncs again"}},
		{"its source asked to wait, and it drains", func(w *world) {
			w.documents(3)
			w.syncing("10 seconds")
			w.exec(`SELECT moves.cut(id, try_id, 2, 2, 'Microsoft asked us to wait', '50 minutes 30 seconds') FROM open_runs`)
			w.service("echomind-semantic")
		}, evidence.Storing, true, []string{"Microsoft asked us to wait until ", "semantic is storing", "put off until then"}},
		{"its source asked to wait, and everything is stored", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`SELECT moves.cut(id, try_id, 2, 2, 'Microsoft asked us to wait', '50 minutes 30 seconds') FROM open_runs`)
			w.exec(`UPDATE open_runs SET stored = 2, whole = true`)
		}, evidence.Completing, true, []string{"its source asked us to wait", "about to be put off"}},
		{"it drains and nobody stores", func(w *world) { w.documents(3); w.draining(3) },
			evidence.NobodyStores, false, []string{"no connection is named echomind-semantic"}},
		{"its documents are purged", func(w *world) {
			w.documents(3)
			w.draining(3)
			stream, err := w.js.Stream(context.Background(), topology.DocumentStream)
			require.NoError(w.t, err)
			require.NoError(w.t, stream.Purge(context.Background()))
		}, evidence.DocumentsLost, false, []string{"document stream: empty", "semantic ends this run within 25s"}},
		{"its documents' volume is wiped", func(w *world) { w.documents(1); w.draining(7) },
			evidence.DocumentsLost, false, []string{"number 1 to 1"}},
		{"its documents' stream is gone", func(w *world) {
			w.draining(7)
			require.NoError(w.t, w.js.DeleteStream(context.Background(), topology.DocumentStream))
		}, evidence.DocumentsLost, false, []string{"document stream: it does not exist"}},
		{"it drains and the broker is away", func(w *world) { w.draining(7); w.away = errors.New("no route") },
			evidence.BrokerAway, true, []string{"NATS: no route"}},
		{"everything is stored", func(w *world) {
			w.draining(3)
			w.exec(`UPDATE open_runs SET total = 2, stored = 2, whole = true WHERE id = $1`, w.session)
			w.service("echomind-semantic")
		}, evidence.Completing, true, []string{"2 messages stored, of 2"}},
		{"another team's service works on it", func(w *world) { w.foreign("1 minute") },
			evidence.ForeignSubscriber, true, []string{"lease: none"}},
		{"another team's service never came back", func(w *world) { w.foreign("7 hours") },
			evidence.WorkerLost, false, []string{"within 6h", "the scheduler gives it to another worker within 5s"}},
		{"another team's service never came back again", func(w *world) {
			w.foreign("7 hours")
			movestest.Force(w.t, w.pool, `UPDATE connectors SET failure_count = 1 WHERE id = $1`, w.id)
		}, evidence.WorkerLost, false, []string{"within 6h", "semantic counts a failure within 5s"}},
		{"somebody removed its run", func(w *world) {
			w.pending("1 minute")
			w.exec(`DELETE FROM open_runs`)
		}, evidence.RunMissing, false, []string{"connectors disable"}},

		// ACTIVE
		{"it became due a moment ago", func(w *world) { w.due("1 second"); w.service("echomind-scheduler") },
			evidence.DueNow, false, []string{"as new", "at most 5"}},
		{"no scheduler runs", func(w *world) { w.due("1 second") },
			evidence.SchedulerAway, false, []string{"none is connected"}},
		{"the scheduler comes through a pooler that hides its name", func(w *world) {
			w.due("5 seconds")
			w.others(1, "2 seconds")
		}, evidence.DueNow, false, []string{"its connection is not seen, but other connectors were dispatched"}},
		{"the only scheduler is switched off", func(w *world) { w.due("1 second"); w.service("echomind-scheduler-off") },
			evidence.SchedulerAway, false, []string{"switched off (SCHEDULER_ENABLED=false)", "start it again without SCHEDULER_ENABLED=false"}},
		{"one scheduler is switched off and another is not", func(w *world) {
			w.due("1 second")
			w.service("echomind-scheduler-off")
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"where a scheduler leads, it is dispatched within"}},
		{"the scheduler is connected and does nothing", func(w *world) { w.due("10 minutes"); w.service("echomind-scheduler") },
			evidence.SchedulerIdle, false, []string{"SCHEDULER_ENABLED"}},
		{"the scheduler is connected, and switched off or led by nobody", func(w *world) { w.due("20 seconds"); w.service("echomind-scheduler") },
			evidence.SchedulerIdle, false, []string{"SCHEDULER_ENABLED may be false", "none of several may lead"}},
		{"it is due and the broker is away", func(w *world) {
			w.due("10 minutes")
			w.service("echomind-scheduler")
			w.away = errors.New("no route")
		}, evidence.BrokerAway, false, []string{"NATS: no route"}},
		{"NATS refuses the messages of its type", func(w *world) {
			w.others(5, "1 minute")
			w.exec(`UPDATE open_runs SET publish_error = 'insufficient resources'`)
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.BrokerRefuses, false, []string{"NATS takes no message for a file connector: insufficient resources", "it stays due"}},
		{"NATS refused messages of its type, and takes them again", func(w *world) {
			w.others(1, "2 minutes")
			w.exec(`UPDATE open_runs SET publish_error = 'insufficient resources'`)
			w.others(4, "1 minute")
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.CapFull, false, nil},
		{"an acknowledgement of its type was lost long ago, and nobody takes the message", func(w *world) {
			w.others(5, "1 hour")
			w.exec(`UPDATE open_runs SET publish_error = 'no answer within 5s'`)
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.CapFull, false, nil},
		{"a concurrency key is full", func(w *world) { w.waitsForKey(1, 1); w.service("echomind-scheduler") },
			evidence.WaitsForKey, false, []string{"concurrency key k is full: 1 run in flight, the first since ", "when fewer than 1 are", "limits set k N"}},
		{"a concurrency key has more in flight than its limit", func(w *world) { w.waitsForKey(2, 3); w.service("echomind-scheduler") },
			evidence.WaitsForKey, false, []string{"at most 2 in flight; 3 runs in flight", "when fewer than 2 are"}},
		{"a concurrency key has no places", func(w *world) { w.waitsForKey(0, 0); w.service("echomind-scheduler") },
			evidence.WaitsForKey, false, []string{"concurrency key k has no places: its limit is 0", "nobody holds a place", "nothing, until an administrator allows more"}},
		{"a concurrency key has a place", func(w *world) { w.waitsForKey(2, 1); w.service("echomind-scheduler") },
			evidence.WaitsForKey, false, []string{"waits for its turn at concurrency key k, which has a place"}},
		{"the limit of a concurrency key is gone", func(w *world) {
			w.waitsForKey(1, 1)
			w.service("echomind-scheduler")
			w.exec(`DELETE FROM concurrency_limits`)
		}, evidence.WaitsForKey, false, []string{"whose limit is removed"}},
		{"a concurrency key has a place and no scheduler runs", func(w *world) { w.waitsForKey(2, 1) },
			evidence.SchedulerAway, false, []string{"none is connected", "it waited for concurrency key k, which has a place"}},
		{"the limit of a concurrency key is gone and no scheduler runs", func(w *world) {
			w.waitsForKey(1, 1)
			w.exec(`DELETE FROM concurrency_limits`)
		}, evidence.SchedulerAway, false, []string{"none is connected"}},
		{"it runs after another, whose end it waits for", func(w *world) { w.due("10 minutes"); w.follows() },
			evidence.WaitsForUpstream, false, []string{"it runs after connector 99, which is ACTIVE", "no run of it that counts has ended"}},
		{"it runs after another, and has no schedule", func(w *world) { w.connector("", ""); w.follows() },
			evidence.WaitsForUpstream, false, []string{"it runs after connector 99, which is ACTIVE"}},
		{"it waited for a full concurrency key, and is to run after another", func(w *world) { w.waitsForKey(1, 1); w.follows() },
			evidence.WaitsForUpstream, false, []string{"it runs after connector 99"}},
		{"it runs after another that has ended, and a concurrency key is full", func(w *world) {
			w.due("2 seconds")
			w.follows()
			w.exec(`UPDATE upstream_ends SET no = 1, completed_no = 1`)
			w.exec(`SELECT moves.let_follow(ARRAY[$1::int])`, w.id)
			w.fullKey(1, 1)
			w.service("echomind-scheduler")
		}, evidence.WaitsForKey, false, []string{"concurrency key k is full: 1 run in flight"}},
		{"the cap of its type is full", func(w *world) {
			w.others(5, "1 hour")
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.CapFull, false, []string{"5 file connectors in flight, at most 5; 0 due before it"}},
		{"the type's own cap is full", func(w *world) {
			w.exec(`UPDATE connector_types SET max_concurrent_syncs = 1 WHERE name = 'file'`)
			w.others(1, "1 hour")
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.CapFull, false, []string{"at most 1"}},
		{"its owner holds the share of one", func(w *world) {
			w.others(4, "1 hour")
			w.exec(`UPDATE open_runs SET user_id = 1`)
			w.exec(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes, last_sync_at) VALUES ('of another', 'file', 7, 60, clock_timestamp())`)
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.OwnerFull, false, []string{"4 of them of user 1, who may have 4", "owner_quotas"}},
		{"its owner has a quota", func(w *world) {
			w.exec(`INSERT INTO owner_quotas (user_id, max_concurrent_syncs) VALUES (1, 1)`)
			w.others(1, "1 hour")
			w.exec(`UPDATE open_runs SET user_id = 1`)
			w.due("10 minutes")
			w.service("echomind-scheduler")
		}, evidence.OwnerFull, false, []string{"1 of them of user 1, who may have 1"}},
		{"its owner is alone, and may have all", func(w *world) {
			w.others(4, "1 hour")
			w.exec(`UPDATE open_runs SET user_id = 1`)
			w.due("1 second")
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"4 file connectors in flight, at most 5"}},
		{"the type has no cap", func(w *world) {
			w.exec(`UPDATE connector_types SET max_concurrent_syncs = 0 WHERE name = 'file'`)
			w.others(9, "1 hour")
			w.due("1 second")
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"no cap"}},
		{"it waits for its slot", func(w *world) {
			w.connector(", refresh_freq_minutes, spread_percent, last_sync_at", ", 60, 0, clock_timestamp() - interval '9 minutes 30 seconds'")
		}, evidence.WaitsForSlot, false, []string{"(in 50m", "no verdict yet"}},
		{"it waits for its slot, which keeps a place of its own and has a deadline", func(w *world) {
			w.connector(", refresh_freq_minutes, deadline_minutes, last_sync_at", ", 60, 90, clock_timestamp()")
		}, evidence.WaitsForSlot, false, []string{"spread: its slots keep a place of their own, up to 10% of the interval earlier", "deadline 1h30m: unless it is claimed by "}},
		{"its slot is put off", func(w *world) {
			w.connector(", refresh_freq_minutes, deadline_minutes, last_sync_at", ", 60, 90, clock_timestamp()")
			movestest.Force(w.t, w.pool, `UPDATE connectors SET slot_at = date_trunc('hour', clock_timestamp()), next_sync_at = date_trunc('hour', clock_timestamp()) + interval '77 minutes'
				WHERE id = $1`, w.id)
		}, evidence.WaitsForSlot, false, []string{"put off: its slot was ", "deadline 1h30m: unless it is claimed by ", ":30", " its slot is missed"}},
		{"its period is completed", func(w *world) {
			w.connector(", schedule_cron, once_per, overlap, catch_up, catch_up_minutes, last_sync_at", ", '0 * * * *', 'day', 'queue', 'all', 120, clock_timestamp()")
			movestest.Force(w.t, w.pool, `UPDATE connectors SET needs_plan = false, due_reason = 'schedule', slot_at = clock_timestamp() + interval '1 day',
				next_sync_at = clock_timestamp() + interval '1 day', synced_for = clock_timestamp() WHERE id = $1`, w.id)
		}, evidence.WaitsForSlot, false, []string{"once per day: the last sync that completed was for ", "overlap queue: ", "catch_up all: of slots that nobody has claimed the latest 10 run",
			"catch_up_minutes: slots older than 2h are missed"}},
		{"its source asked to wait", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`SELECT moves.postpone(id, try_id, '50 minutes 30 seconds', 'Microsoft asked us to wait') FROM open_runs`)
		}, evidence.ToldToWait, false, []string{"Microsoft asked us to wait until ", "(in 50m", "no failure is counted", "superseded (postponed: Microsoft asked us to wait until "}},
		{"its source asked to wait, and what was sent is lost", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`SELECT moves.cut(id, try_id, 2, 7, 'Microsoft asked us to wait', '50 minutes 30 seconds') FROM open_runs`)
			w.exec(`SELECT moves.fail_lost_in_transit(ARRAY(SELECT id FROM open_runs), 8, 9)`)
		}, evidence.ToldToWait, false, []string{"Microsoft asked us to wait until ", "(in 50m", "were lost in transit"}},
		{"its source puts it off again and again", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`SELECT moves.postpone(id, try_id, '50 minutes 30 seconds', 'Microsoft asked us to wait') FROM open_runs`)
			movestest.Force(w.t, w.pool, `UPDATE connectors SET put_off_since = clock_timestamp() - interval '3 days' WHERE id = $1`, w.id)
		}, evidence.ToldToWait, false, []string{", put off since ", "come further since then"}},
		{"its source asked to wait, and that is over", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`SELECT moves.postpone(id, try_id, '1 second', 'Microsoft asked us to wait') FROM open_runs`)
			movestest.Force(w.t, w.pool, `UPDATE connectors SET next_sync_at = clock_timestamp() WHERE id = $1`, w.id)
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"as wait"}},
		{"it is manual only", func(w *world) { w.connector("", "") },
			evidence.ManualOnly, false, []string{"connectors trigger"}},
		{"it runs once and has", func(w *world) {
			w.connector(", refresh_freq_minutes, last_sync_at", ", 0, clock_timestamp()")
		}, evidence.OnceOnly, false, nil},
		{"its schedule is still to be planned", func(w *world) { w.connector(", schedule_cron", ", '0 3 * * *'") },
			evidence.BeingPlanned, false, []string{`"0 3 * * *" in UTC`, "once a scheduler runs"}},
		{"its schedule cannot be planned", func(w *world) {
			w.connector(", schedule_cron", ", 'at noon'")
			movestest.Force(w.t, w.pool, `UPDATE connectors SET needs_plan = false, status_message = 'bad schedule: five fields' WHERE id = $1`, w.id)
		}, evidence.CannotBePlanned, false, []string{"bad schedule: five fields", "--cron"}},
		{"its calendar cannot be read", func(w *world) {
			w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('off', 'UTC', '[1]')`)
			w.connector(", schedule_cron, calendar", ", '0 3 * * *', 'off'")
			movestest.Force(w.t, w.pool, `UPDATE connectors SET needs_plan = false, status_message = 'calendar cannot be read' WHERE id = $1`, w.id)
		}, evidence.CannotBePlanned, false, []string{"nothing, until calendar `off` is corrected, or it names another: `echomind connectors update", "--calendar …"}},

		// ERROR
		{"it failed and backs off", func(w *world) { w.failed(lifecycle.Transient) },
			evidence.BackingOff, false, []string{"the site answers 500", "failures in a row: 1; at 5", "transient failure"}},
		{"it took too long, and goes on from a checkpoint", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`UPDATE open_runs SET stored = 2, checkpoint_no = 1, advanced = true`)
			w.fail(lifecycle.TooLong)
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"as retry", "took too long: the site answers 500"}},
		{"it failed for good", func(w *world) { w.failed(lifecycle.Permanent) },
			evidence.FailedForGood, false, []string{"permanent failure", "connectors update"}},
		{"it was lost in transit and no scheduler runs", func(w *world) { w.lostInTransit() },
			evidence.SchedulerAway, false, []string{"as lost", "lost in transit"}},
		{"it failed and was triggered", func(w *world) {
			w.failed(lifecycle.Permanent)
			w.exec(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1`, w.id)
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"as manual", "triggered"}},

		{"a run with parameters is due before its slot", func(w *world) {
			w.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'file'`)
			w.connector(", refresh_freq_minutes, last_sync_at", ", 60, clock_timestamp()")
			w.exec(`SELECT moves.trigger_sync($1, parameters => '{"dry_run": true}')`, w.id)
			w.service("echomind-scheduler")
		}, evidence.DueNow, false, []string{"as manual", "a run with parameters was asked for; it is due now"}},
		{"a run with parameters waits for another", func(w *world) {
			w.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'file'`)
			w.syncing("10 seconds")
			w.exec(`SELECT moves.trigger_sync($1, parameters => '{"dry_run": true}')`, w.id)
		}, evidence.Fetching, true, []string{"a run with parameters was asked for; it follows this one"}},

		// DISABLED
		{"the user disabled it", func(w *world) {
			w.connector("", "")
			w.exec(`SELECT moves.disable($1)`, w.id)
		}, evidence.DisabledByUser, false, []string{"disabled by the user", "connectors enable"}},
		{"it failed too often", func(w *world) {
			w.syncing("10 seconds")
			w.exec(`UPDATE connectors SET max_retries = 1 WHERE id = $1`, w.id)
			w.fail(lifecycle.Transient)
		}, evidence.DisabledByFailures, false, []string{"disabled after 1 failures in a row: the site answers 500"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.arrange(w)
			answer := w.why(defaults)
			all := strings.Join(append(answer.Evidence, answer.Why, answer.Next), "\n")
			require.Equal(t, c.cause, answer.Cause, all)
			require.Equal(t, c.running, answer.Running, all)
			require.NotEmpty(t, answer.Why)
			require.NotEmpty(t, answer.Next)
			for _, say := range c.says {
				require.Contains(t, all, say)
			}
		})
	}
}

func TestWhyNamesTheSessionTheTryAndTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.syncing("10 seconds")
	answer := w.why(defaults)
	require.Equal(t, &w.try.Run, answer.RunID)
	require.Equal(t, &w.try.ID, answer.TryID)
	require.NotNil(t, answer.WorkerID)
	all := strings.Join(answer.Evidence, "\n")
	require.Contains(t, all, "session "+w.try.Run.String()+", try "+w.try.ID.String())
	require.Contains(t, all, "worker "+answer.WorkerID.String())
}

func TestWhyKnowsThatAConnectorDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := evidence.Gather(context.Background(), w.pool, w.broker, nil, 7, defaults)
	require.ErrorIs(t, err, evidence.ErrNoConnector)
}

func TestWhyAsksNoBrokerOfAConnectorThatRests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.due("-1 hour")
	w.broker = nil
	require.Equal(t, evidence.WaitsForSlot, w.why(defaults).Cause)
}
