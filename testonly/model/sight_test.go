package model

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// sight is what the database holds at one moment.
type sight struct {
	connectors map[int32]connectorRow
	runs       map[uuid.UUID]runRow
	documents  []documentRow
}

type connectorRow struct {
	ID            int32
	Type          string
	Status        string
	StatusMessage *string
	Refresh       *int
	ConfigVersion int64
	Cursor        *int
	State         string
	LastSyncAt    *time.Time
	NextSyncAt    *time.Time
	DueReason     *string
	IsDue         bool
	Triggered     bool
	SlotAt        *time.Time
	SlotsThrough  *time.Time
	FailureCount  int
	// Of its open run.
	Run      *uuid.UUID
	Try      *uuid.UUID
	Worker   *uuid.UUID
	DrainSeq *int64
}

type runRow struct {
	ID            uuid.UUID
	ConnectorID   int32
	TryID         *uuid.UUID
	Trigger       string
	Slot          *time.Time
	MissedCount   *int
	DispatchedAt  *time.Time
	PickedUpAt    *time.Time
	WorkerID      *uuid.UUID
	StartedAt     time.Time
	CompletedAt   *time.Time
	Status        string
	Reason        *string
	Total         *int64
	Stored        int64
	ConfigVersion int64
	DrainSeq      *int64
	Counted       int64
	Notes         int64
	CheckpointNo  int64
	// Prefix is how many messages up to the checkpoint are stored.
	Prefix int64
	// Of an open run: how far its messages are counted, how many up to there are stored, how many parts it says that wait,
	// and how many do.
	CountedThrough, CountedPrefix, SaysWait, Wait int64
	Cut                                           *string
}

type documentRow struct {
	ID            int64
	ConnectorID   int32
	SourceID      string
	ContentHash   string
	VersionToken  string
	Status        string
	Error         *string
	WrittenBy     *uuid.UUID
	TryID         *uuid.UUID
	FirstNo       *int64
	ConfigVersion int64
	ChunkCount    int
	Texts         []string
}

// look reads it all, at one moment: a statement that a dead process sent may still commit while it looks.
func (w *world) look() *sight {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	tx, err := w.user.servers.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	must(w.tb, "look", err)
	defer func() { must(w.tb, "look", tx.Rollback(ctx)) }()
	s := &sight{connectors: map[int32]connectorRow{}, runs: map[uuid.UUID]runRow{}}
	for _, c := range read[connectorRow](ctx, w, tx, `
		SELECT c.id, c.type, status, status_message, refresh_freq_minutes AS refresh, c.config_version,
			(state->>'cursor')::float8::integer AS cursor, state::text AS state, last_sync_at, next_sync_at, due_reason,
			coalesce(next_sync_at <= clock_timestamp(), false) AS is_due,
			c.trigger_requested_at IS NOT NULL AS triggered, slot_at, slots_through, failure_count,
			run_id AS run, r.try_id AS try, r.worker_id AS worker, r.drain_seq
		FROM connectors c LEFT JOIN open_runs r ON r.id = c.run_id`) {
		s.connectors[c.ID] = c
	}
	for _, r := range read[runRow](ctx, w, tx, `
		SELECT r.id, r.connector_id, r.try_id, r.trigger, r.slot, missed_count, r.dispatched_at, r.picked_up_at, r.worker_id, r.started_at,
			completed_at, status, r.reason, r.total, r.stored, r.config_version, r.drain_seq,
			(SELECT count(*) FROM run_messages m WHERE m.try_id = r.try_id) AS counted,
			r.notes, r.checkpoint_no, (SELECT count(*) FROM run_messages m WHERE m.try_id = r.try_id
				AND m.no <= r.checkpoint_no AND m.given_up IS DISTINCT FROM 'unnamed' AND m.waits_for IS NULL) AS prefix,
			coalesce(o.counted_through, 0) AS counted_through, (SELECT count(*) FROM run_messages m WHERE m.try_id = o.try_id
				AND m.no <= o.counted_through AND m.given_up IS DISTINCT FROM 'unnamed' AND m.waits_for IS NULL) AS counted_prefix,
			coalesce(o.waiting, 0) AS says_wait,
			(SELECT count(*) FROM run_messages m WHERE m.try_id = o.try_id AND m.waits_for IS NOT NULL) AS wait, o.cut
		FROM scheduler_runs r LEFT JOIN open_runs o ON o.id = r.id`) {
		s.runs[r.ID] = r
	}
	s.documents = read[documentRow](ctx, w, tx, `
		SELECT id, connector_id, source_id, content_hash, version_token, status, error, written_by, try_id,
			first_no, config_version, chunk_count,
			ARRAY(SELECT c.text FROM chunks c WHERE c.document_id = d.id AND c.try_id = d.try_id
				AND c.first_no = d.first_no ORDER BY c.no) AS texts
		FROM documents d ORDER BY connector_id, source_id`)
	return s
}

func rows[T any](w *world, sql string) []T {
	w.tb.Helper()
	ctx, cancel := bounded()
	defer cancel()
	return read[T](ctx, w, w.user.servers.Pool, sql)
}

// reader is a pool or a transaction.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func read[T any](ctx context.Context, w *world, from reader, sql string) []T {
	w.tb.Helper()
	found, err := from.Query(ctx, sql)
	must(w.tb, "look", err)
	all, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (T, error) {
		var value T
		if _, isRow := any(value).(int64); isRow {
			return pgx.RowTo[T](row)
		}
		return pgx.RowToStructByName[T](row)
	})
	must(w.tb, "look", err)
	return all
}

// connector is a connector's row; an empty one where it is deleted.
func (s *sight) connector(id int32) connectorRow { return s.connectors[id] }

func (c connectorRow) is(status string, run uuid.UUID) bool {
	return c.Status == status && c.Run != nil && *c.Run == run
}

// heldBy says whether a connector's run is a trip's try; anybody may keep its lease.
func (c connectorRow) heldBy(t *trip) bool {
	return c.is("SYNCING", t.try.Run) && c.Try != nil && *c.Try == t.try.ID
}

// leasedBy says whether it fetches, in the hands of a trip's worker.
func (c connectorRow) leasedBy(t *trip) bool {
	if t.worker == uuid.Nil {
		return c.heldBy(t) && c.isUnleased()
	}
	return c.heldBy(t) && c.Worker != nil && *c.Worker == t.worker
}

// isUnleased says whether it is fetched by a subscriber that keeps no lease.
func (c connectorRow) isUnleased() bool {
	return c.Status == "SYNCING" && c.Worker == nil && c.DrainSeq == nil
}

func (r runRow) isOf(try uuid.UUID) bool { return r.TryID != nil && *r.TryID == try }

func (c connectorRow) atRest() bool { return c.Status == "ACTIVE" || c.Status == "ERROR" }

func (c connectorRow) inFlight() bool { return c.Status == "PENDING" || c.Status == "SYNCING" }

// latest is the run of a connector that began last.
func (s *sight) latest(id int32) runRow {
	var last runRow
	for _, r := range s.runs {
		if r.ConnectorID == id && (last.ID == uuid.Nil || r.StartedAt.After(last.StartedAt)) {
			last = r
		}
	}
	return last
}

// ofTry is the run of a try.
func (s *sight) ofTry(try uuid.UUID) (runRow, bool) {
	for _, r := range s.runs {
		if r.isOf(try) {
			return r, true
		}
	}
	return runRow{}, false
}

// visible is what a search may find of a connector: its documents that name chunks.
func (s *sight) visible(id int32) map[string]documentRow {
	all := map[string]documentRow{}
	for _, d := range s.documents {
		if d.ConnectorID == id && d.TryID != nil {
			all[d.SourceID] = d
		}
	}
	return all
}

func (d documentRow) text() string {
	if len(d.Texts) == 0 {
		return ""
	}
	return strings.Join(d.Texts, "\n") + "\n"
}

func (d documentRow) String() string {
	return fmt.Sprintf("document %s of c%d (%s, token %q, hash %q, error %q, written by %.8s, %d chunks: %q)",
		d.SourceID, d.ConnectorID, d.Status, d.VersionToken, d.ContentHash, deref(d.Error), fmt.Sprint(d.WrittenBy),
		d.ChunkCount, d.Texts)
}

// isGivenUp says whether the last message about it was given up.
func (d documentRow) isGivenUp() bool { return strings.HasPrefix(deref(d.Error), "given up: ") }

func (r runRow) String() string {
	return fmt.Sprintf("run %.8s of c%d (%s, %s, reason %q, stored %d of %s)", r.ID, r.ConnectorID, r.Trigger,
		r.Status, deref(r.Reason), r.Stored, number(r.Total))
}

func (c connectorRow) String() string {
	return fmt.Sprintf("c%d (%s, %s, config version %d, state %s, failures %d, due %q, message %q)", c.ID, c.Type, c.Status,
		c.ConfigVersion, c.State, c.FailureCount, deref(c.DueReason), deref(c.StatusMessage))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func number(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
