//go:build alerts

package alerts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/testkit"
)

// trial is a fault and the alerts that it must raise. Its runbooks say the fault in the same words.
type trial struct {
	fault  string
	alerts []string
	// inject breaks something and returns what mends it.
	inject func(*lab) (mend func())
}

func alerts(names ...string) []string { return names }

func nothing() {}

// waves are injected one after the other, the trials of one together: they do not disturb each other.
func waves() [][]trial {
	return [][]trial{
		{
			{"the chunker is stopped", alerts("EchoMindServiceDown"), stopChunker},
			{"a scheduler without election runs beside two that have one", alerts("EchoMindSeveralLeaders"), startRogue},
			{"a type may have one sync in flight, and nobody picks it up", alerts("EchoMindDispatchLag"), fillTheCap},
			{"the stream of triggers is purged while 40 wait, and nobody serves their type", alerts("EchoMindMessagesLost", "EchoMindBacklogAge"), purgeTriggers},
			{"the source of ten connectors fails at each sync", alerts("EchoMindSyncsFail"), failSyncs},
			{"a worker is killed every four seconds", alerts("EchoMindWorkersCrash"), crash},
			{"a handler ignores that its connector was disabled", alerts("EchoMindStuckHandlers"), hang},
			{"a document that cannot be read is published, and the stream of dead letters may grow no more", alerts("EchoMindDeadLetters", "EchoMindStreamNearlyFull"), fillDeadLetters},
			{"the embedder refuses; then what waits for it is purged", alerts("EchoMindEmbedderErrors", "EchoMindDrainStalls", "EchoMindDocumentsLost"), refuseToEmbed},
			{"semantic is told of a Qdrant that nobody serves", alerts("EchoMindIndexErrors"), startIndexer},
			{"somebody writes a schedule that nobody can work out", alerts("EchoMindBadSchedule"), writeBadSchedule},
			{"somebody tries tokens that nobody has", alerts("EchoMindAPIRefuses"), tryTokens},
			{"somebody opens connections, and a transaction that does not end", alerts("EchoMindPostgresConnections", "EchoMindOldTransaction"), occupyPostgres},
		},
		{
			{"a table that the tick reads is renamed", alerts("EchoMindTickErrors"), renameTable},
			{"a table that the API reads at each request is locked", alerts("EchoMindAPIErrors", "EchoMindAPISlow"), lockTokens},
		},
		{{"the connections of the schedulers are cut every second", alerts("EchoMindLeaderFlaps"), cutSchedulers}},
		{{"nats-server is killed", alerts("EchoMindNatsAway", "EchoMindStreamDown"), killNATS}},
		{{"no way leads to Postgres", alerts("EchoMindNoLeader", "EchoMindPostgresAway"), cutPostgres}},
	}
}

// untried are the alerts that only promtool has seen fire, and why.
var untried = map[string]string{
	"EchoMindPoolExhausted":      "a pool that is waited for all the time needs more load than a test can make in a minute",
	"EchoMindSchedulerStopped":   "every call of a tick has a deadline, and there is no fault that stops one",
	"EchoMindPublishErrors":      "the scheduler repeats what was refused once a minute, which minutes that last a second do not see",
	"EchoMindConnectorsDisabled": "connectors are disabled after several failures, minutes apart",
	"EchoMindProviderThrottles":  "it takes an hour of throttling",
	"EchoMindPutOff":             "it takes a day",
	"EchoMindDeletionStays":      "it takes six hours",
	"EchoMindKeyIsFull":          "it takes six hours",
	"EchoMindLate":               "a connector may be a minute old at least, and 15 more pass",
	"EchoMindStreamReplicaLost":  "the harness has one broker",
	"EchoMindEventsWait":         "an event waits for five minutes first",
	"EchoMindEventsDropped":      "250,000 events have to wait first",
}

func stopChunker(l *lab) func() {
	l.named("chunker").Stop()
	return func() { l.named("chunker").Start(context.Background()) }
}

func startRogue(l *lab) func() {
	l.named("rogue").Start(context.Background())
	return l.named("rogue").Stop
}

func startIndexer(l *lab) func() {
	l.named("indexer").Start(context.Background())
	return l.named("indexer").Stop
}

func writeBadSchedule(l *lab) func() {
	l.sql(`INSERT INTO connectors (name, type, user_id, schedule_cron) VALUES ('bad', 'file', 1, '61 * * * *')`)
	return nothing
}

func fillTheCap(l *lab) func() {
	l.add(typeCapped, 3, nil)
	return nothing
}

func purgeTriggers(l *lab) func() {
	// Of one moment: those that are published again would hide others that were dispatched after them.
	l.sql(`INSERT INTO connectors (name, type, user_id, refresh_freq_minutes) SELECT 'lost', $1, 1, 60 FROM generate_series(1, 40)`, typeLost)
	subject, err := topology.SyncSubject(typeLost)
	require.NoError(l.t, err)
	// One that comes after the purge would show that the others, of the same moment, may be waiting behind it.
	testkit.Eventually(l.t, 20*time.Second, func() error {
		ctx := context.Background()
		stream, err := l.Stream.Stream(ctx, topology.SyncStream)
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
		if err == nil && info.State.Subjects[subject] < 40 {
			err = fmt.Errorf("%d triggers wait", info.State.Subjects[subject])
		}
		return err
	})
	l.purge(topology.SyncStream)
	return nothing
}

func failSyncs(l *lab) func() {
	l.add(typeFailing, 10, map[string]any{"trouble": "permanent", "every": 1})
	return nothing
}

func crash(l *lab) func() {
	l.add(typeCrash, 60, map[string]any{"milliseconds": 60_000})
	return l.repeat(4*time.Second, l.named("crasher").Kill)
}

func hang(l *lab) func() {
	l.add(typeHang, 1, map[string]any{"trouble": "hang", "every": 1, "milliseconds": 0})
	// One that is told so before it hangs ends as it should.
	l.eventually(20*time.Second, `SELECT r.picked_up_at < clock_timestamp() - interval '2 seconds'
		FROM connectors c JOIN open_runs r ON r.connector_id = c.id WHERE c.type = 'hang'`)
	l.sql(`SELECT moves.disable(id) FROM connectors WHERE type = 'hang'`)
	return nothing
}

func fillDeadLetters(l *lab) func() {
	ctx := context.Background()
	_, err := l.Stream.Publish(ctx, topology.DocumentSubject, []byte{7, 7, 7})
	require.NoError(l.t, err)
	testkit.Eventually(l.t, 30*time.Second, func() error {
		stream, err := l.Stream.Stream(ctx, topology.DeadLetterStream)
		if err != nil {
			return err
		}
		if stream.CachedInfo().State.Msgs == 0 {
			return fmt.Errorf("no dead letter yet")
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = int64(stream.CachedInfo().State.Bytes) * 10 / 9
		_, err = l.Stream.UpdateStream(ctx, cfg)
		return err
	})
	return nothing
}

func refuseToEmbed(l *lab) func() {
	point := filepath.Join(l.Failpoints, "semantic.embedder")
	require.NoError(l.t, os.WriteFile(point, []byte("error"), 0o600))
	l.sql(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE type = 'well'`)
	stop := make(chan struct{})
	var purging sync.WaitGroup
	purging.Go(func() {
		for {
			// The other alerts of this fault first: what is purged does not drain any more.
			if fired, err := l.prometheus.fired(context.Background(), 600); err == nil && contains(fired, "EchoMindDrainStalls") {
				l.purge(topology.DocumentStream)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
		}
	})
	return func() {
		close(stop)
		purging.Wait()
		require.NoError(l.t, os.Remove(point))
	}
}

func occupyPostgres(l *lab) func() {
	ctx := context.Background()
	var most, used int
	require.NoError(l.t, l.Pool.QueryRow(ctx, `SELECT current_setting('max_connections')::int, count(*) FROM pg_stat_activity`).Scan(&most, &used))
	var taken []*pgx.Conn
	for range most*88/100 - used {
		conn, err := pgx.Connect(ctx, l.Postgres.URL())
		require.NoError(l.t, err)
		taken = append(taken, conn)
	}
	_, err := taken[0].Exec(ctx, "BEGIN")
	require.NoError(l.t, err)
	return func() {
		for _, conn := range taken {
			require.NoError(l.t, conn.Close(ctx))
		}
	}
}

func renameTable(l *lab) func() {
	l.sql(`ALTER TABLE connector_types RENAME TO gone`)
	return func() { l.sql(`ALTER TABLE gone RENAME TO connector_types`) }
}

func cutSchedulers(l *lab) func() {
	return l.repeat(time.Second, func() {
		for _, p := range l.Named("scheduler-") {
			p.Postgres.Cut()
		}
	})
}

func killNATS(l *lab) func() {
	l.NATS.Kill()
	return func() { require.NoError(l.t, l.NATS.Start(context.Background())) }
}

func cutPostgres(l *lab) func() {
	for _, p := range l.Processes {
		p.Postgres.Refuse(true)
		p.Postgres.Cut()
	}
	return func() { require.NoError(l.t, l.Heal()) }
}

// repeat does something every so often until it is mended.
func (l *lab) repeat(every time.Duration, do func()) (mend func()) {
	stop := make(chan struct{})
	var repeating sync.WaitGroup
	repeating.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				do()
			}
		}
	})
	return func() {
		close(stop)
		repeating.Wait()
	}
}

func (l *lab) purge(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := l.Stream.Stream(ctx, name)
	if err == nil {
		err = stream.Purge(ctx)
	}
	if err != nil {
		l.t.Errorf("purge %s: %v", name, err)
	}
}
