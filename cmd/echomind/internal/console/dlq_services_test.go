package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

// soon bounds what takes a second or two.
const soon = 60 * time.Second

// journal is a source that tells only what has changed since a cursor: what a sync did not store does not come again
// by itself, unless it failed, or somebody forgot its token.
type journal struct {
	mu      sync.Mutex
	entries []string // source ids, in the order in which they changed
	memos   []string // what the last sync got back
}

func (j *journal) write(ids ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, ids...)
}

func (j *journal) gotBack() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.memos
}

func (j *journal) sync(ctx context.Context, run *worker.Run) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var cursor struct{ Seen int }
	if err := run.State(&cursor); err != nil {
		return err
	}
	known, err := run.Known(ctx)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, id := range j.entries[cursor.Seen:] {
		changed[id] = true
	}
	j.memos = nil
	for id, stored := range known {
		j.memos = append(j.memos, id+" "+string(stored.Memo))
		if stored.VersionToken == "" {
			changed[id] = true
		}
	}
	for id := range changed {
		doc := worker.Document{SourceID: id, Memo: json.RawMessage(`{ "entry": 1 }`), VersionToken: "v1", ContentHash: "1", Chunks: chunk.Split([]chunk.Section{{Text: id}}, chunk.Options{})}
		if err := run.Put(ctx, doc); err != nil {
			return err
		}
	}
	return run.SetState(map[string]any{"Seen": len(j.entries)})
}

// spoilt stores everything but what says poison.
type spoilt struct {
	*semantic.PostgresStore
	healed *atomic.Bool
}

func (s spoilt) Write(ctx context.Context, tx pgx.Tx, pieces []semantic.Piece) error {
	for _, p := range pieces {
		if strings.Contains(p.Text, "poison") && !s.healed.Load() {
			return errors.New("this one always fails")
		}
	}
	return s.PostgresStore.Write(ctx, tx, pieces)
}

// pipeline is the real services on real servers, each started when the test says so, with a connector of type `journal`.
type pipeline struct {
	terminal
	journal journal
	healed  atomic.Bool
	pool    *pgxpool.Pool
	js      jetstream.JetStream
	ctx     context.Context
	work    errgroup.Group
}

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	u := newTerminal(t).withStreams()
	p := &pipeline{terminal: u, pool: u.pool(), js: u.jetstream()}
	var stop context.CancelFunc
	p.ctx, stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		if err := p.work.Wait(); err != nil {
			t.Errorf("the services ended: %v", err)
		}
	})
	u.succeed("types", "add", "journal", "--default-refresh", "60m")
	u.succeed("connectors", "add", "--name", "docs", "--type", "journal", "--user", "1") // number 1: semantic adds its system jobs later
	return p
}

func (p *pipeline) servers(service string) (*connect.Servers, connect.Process) {
	p.t.Helper()
	var cfg config.Common
	require.NoError(p.t, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL = p.lookup.DatabaseURL, p.lookup.NATSURL
	process := connect.NewProcess(testkit.Logger(p.t))
	servers, err := connect.Open(p.ctx, cfg, service, process)
	require.NoError(p.t, err)
	return servers, process
}

func (p *pipeline) schedules() {
	p.t.Helper()
	var cfg scheduler.Config
	require.NoError(p.t, config.Load(&cfg))
	cfg.DatabaseURL, cfg.NATSURL, cfg.WatchIntervalSeconds = p.lookup.DatabaseURL, p.lookup.NATSURL, 1
	p.work.Go(func() error { return scheduler.Run(p.ctx, cfg, connect.NewProcess(testkit.Logger(p.t))) })
}

func (p *pipeline) stores() {
	p.t.Helper()
	var cfg semantic.Config
	require.NoError(p.t, config.Load(&cfg))
	cfg.MaxTries = 1
	servers, process := p.servers("semantic")
	store := spoilt{semantic.NewPostgresStore(), &p.healed}
	p.work.Go(func() error {
		return errors.Join(semantic.New(cfg, servers, &embed.Hash{}, store, process).Run(p.ctx), servers.Close())
	})
}

func (p *pipeline) fetches() {
	p.t.Helper()
	var cfg worker.Config
	require.NoError(p.t, config.Load(&cfg))
	servers, process := p.servers("worker-journal")
	w, err := worker.New("journal", p.journal.sync, cfg, servers, process)
	require.NoError(p.t, err)
	p.work.Go(func() error { return errors.Join(w.Run(p.ctx), servers.Close()) })
}

// verdicts waits for so many, and for the connector to be at rest after them.
func (p *pipeline) verdicts(want ...string) {
	p.t.Helper()
	testkit.Eventually(p.t, soon, func() error {
		var status string
		var got []string
		err := p.pool.QueryRow(p.ctx, `SELECT k.status, array(SELECT r.trigger || ' ' || r.status FROM scheduler_runs r
			WHERE r.connector_id = k.id ORDER BY r.started_at) FROM connectors k WHERE k.id = 1`).Scan(&status, &got)
		if err == nil && (status != "ACTIVE" || strings.Join(got, ", ") != strings.Join(want, ", ")) {
			err = fmt.Errorf("the connector is %s after %q, want %q", status, got, want)
		}
		return err
	})
}

func (p *pipeline) documents() (all []string) {
	p.t.Helper()
	require.NoError(p.t, p.pool.QueryRow(p.ctx, `SELECT array(SELECT source_id || ' ' || status FROM documents ORDER BY source_id)`).Scan(&all))
	return all
}

// nextSlot lets the time of the next slot come.
func (p *pipeline) nextSlot() {
	p.t.Helper()
	p.force(`UPDATE connectors SET next_sync_at = clock_timestamp(), slot_at = clock_timestamp() WHERE id = 1 AND due_reason = 'schedule'`)
	p.exec(`SELECT pg_notify('connectors_due', '')`)
}

// newPoisoned is a pipeline with a connector of which one document is stored, and another was given up.
func newPoisoned(t *testing.T) *pipeline {
	t.Helper()
	p := newPipeline(t)
	p.journal.write("fine", "poison")
	p.schedules()
	p.stores()
	p.fetches()
	p.verdicts("new completed")
	require.Equal(t, []string{"fine stored", "poison failed"}, p.documents())
	return p
}

func TestADocumentThatWasGivenUpNeverHoldsUpItsConnectorAndComesBackByReplay(t *testing.T) {
	t.Parallel()
	p := newPoisoned(t)
	letter := p.object("dlq", "show", "1")
	require.Equal(t, "poison", letter["source_id"])
	require.InDelta(t, 1, letter["tries"], 0)
	require.InDelta(t, 2, letter["deliveries"], 0)
	require.Contains(t, letter["reason"], "this one always fails")
	require.NotEmpty(t, letter["first_at"])
	require.NotEmpty(t, letter["session"])

	p.journal.write("later")
	p.nextSlot()
	p.verdicts("new completed", "schedule completed")
	require.Equal(t, []string{"fine stored", "later stored", "poison failed"}, p.documents())
	require.ElementsMatch(t, []string{`fine {"entry":1}`, `poison {"entry":1}`}, p.journal.gotBack())
	require.Equal(t, 1, p.ids()[0], "it stays until somebody decides")

	p.healed.Store(true)
	p.succeed("dlq", "replay", "--all", "--connector", "1")
	p.verdicts("new completed", "schedule completed", "manual completed")
	require.Equal(t, []string{"fine stored", "later stored", "poison stored"}, p.documents())
	require.Empty(t, p.ids())
	var again string
	require.NoError(t, p.pool.QueryRow(p.ctx, `SELECT id::text FROM scheduler_runs WHERE trigger = 'manual'`).Scan(&again))
	require.NotEqual(t, letter["session"], again, "under a session of its own")
}

func TestADocumentThatIsStoredIsFetchedAgainByReplayThoughItsSourceTellsOfNoChange(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.journal.write("one", "two")
	p.schedules()
	p.stores()
	p.fetches()
	p.verdicts("new completed")
	p.letter(p.js, topology.DocumentSubject, part(1, 1, "one"))
	p.succeed("dlq", "replay", "1")
	p.verdicts("new completed", "manual completed")
	var processed int
	require.NoError(t, p.pool.QueryRow(p.ctx, `SELECT documents_processed FROM scheduler_runs WHERE trigger = 'manual'`).Scan(&processed))
	require.Equal(t, 1, processed)
	require.Equal(t, map[string]string{"1 one": "v1", "1 two": "v1"}, p.tokens())
}

func TestATriggerThatNobodyCanReadNeverHoldsUpItsConnector(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	p.schedules()
	stream, err := p.js.Stream(p.ctx, topology.SyncStream)
	require.NoError(t, err)
	var original *jetstream.RawStreamMsg
	testkit.Eventually(t, soon, func() error {
		original, err = stream.GetMsg(p.ctx, 1)
		return err
	})
	require.NoError(t, stream.DeleteMsg(p.ctx, 1))
	damaged := nats.NewMsg(original.Subject)
	damaged.Header, damaged.Data = original.Header, []byte("\xff")
	_, err = p.js.PublishMsg(p.ctx, damaged)
	require.NoError(t, err)
	p.exec(`UPDATE open_runs SET dispatched_at = dispatched_at - interval '5 minutes'`) // the grace is over
	p.stores()
	p.fetches()
	p.verdicts("new skipped")
	p.journal.write("one")
	p.nextSlot()
	p.verdicts("new skipped", "schedule completed")

	letter := p.object("dlq", "show", "1")
	require.InDelta(t, 1, letter["connector_id"], 0, "its session says whose it is")
	require.Contains(t, letter["problem"], "not a ConnectorSyncRequest")
	require.InDelta(t, 1, letter["deliveries"], 0)
	require.NotEmpty(t, letter["first_at"])
	p.journal.write("two")
	require.Contains(t, p.succeed("dlq", "replay", "1"), "connector 1 is synced again")
	p.verdicts("new skipped", "schedule completed", "manual completed")
	require.Empty(t, p.ids())
}
