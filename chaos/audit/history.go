package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/chaos/source"
)

// event is one move of a connector.
type event struct {
	Seq, Tx                   int64
	At                        time.Time
	Op                        string
	Connector                 int32
	OldType, Type             string
	From, To                  string // status; empty before it was added and after it was deleted
	OldSession, Session       *uuid.UUID
	OldLease                  *time.Time
	Failures, MaxRetries      int
	OldReason                 string
	OldSlot, Slot             *time.Time
	OldPlanned, Planned       *time.Time
	Cron                      *string
	TimeZone                  string
	Rescheduled, Reconfigured bool
	Answered                  bool
	StateMoved, StateEmpty    bool
	OldVersion, Version       *int
	OldDone, Done             int // documents of the next version that a checkpoint stands for
	// Stored is, at a checkpoint, the token of each stored document, nil for one that failed.
	Stored map[string]*string
}

// inFlight says whether a status holds a place under a cap.
func inFlight(status string) bool { return status == "PENDING" || status == "SYNCING" }

// claimed says whether the scheduler took the connector.
func (e *event) claimed() bool { return e.To == "PENDING" && e.From != "" && e.From != "PENDING" }

func (e *event) String() string {
	return fmt.Sprintf("connector %d (%s) at %s", e.Connector, e.OldType, e.At.Format(time.RFC3339Nano))
}

// run is one row of the ledger, by its events.
type run struct {
	id            uuid.UUID
	connector     int32
	trigger       string
	slot, last    *time.Time
	missed        int
	configVersion int64
	verdict       string // empty while it is open
	reason        string
	at            time.Time
	openedBy      int64 // transaction
	// How often it was opened and ended, and whether it is gone from the ledger.
	opened, ended int
	gone          bool
	claimed       bool
}

func (r *run) String() string {
	return fmt.Sprintf("run %s of connector %d (%s, since %s)", r.id, r.connector, r.trigger, r.at.Format(time.RFC3339Nano))
}

func (r *run) synced() bool { return r.verdict == "completed" || r.verdict == "skipped" }

// configured is one configuration of a connector.
type configured struct {
	kind      string
	synthetic *source.Config // nil for another source
	troubled  bool
}

type history struct {
	events      []*event
	byConnector map[int32][]*event
	runs        map[uuid.UUID]*run
	ordered     []*run
	configs     map[int32]map[int64]configured
	written     int // events of documents
	violations  map[string][]string
}

func load(ctx context.Context, pool *pgxpool.Pool) (*history, error) {
	h := &history{
		byConnector: map[int32][]*event{}, runs: map[uuid.UUID]*run{}, configs: map[int32]map[int64]configured{},
		violations: map[string][]string{},
	}
	for _, read := range []func(context.Context, *pgxpool.Pool) error{h.loadEvents, h.loadRuns, h.loadConfigs, h.loadViolations} {
		if err := read(ctx, pool); err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
	}
	return h, pool.QueryRow(ctx, `SELECT count(*) FROM chaos.document_events`).Scan(&h.written)
}

func (h *history) loadEvents(ctx context.Context, pool *pgxpool.Pool) error {
	const version = `CASE WHEN jsonb_typeof(%[1]s->'version') = 'number' THEN (%[1]s->>'version')::integer END`
	const done = `CASE WHEN jsonb_typeof(%[1]s->'done') = 'number' THEN (%[1]s->>'done')::integer ELSE 0 END`
	rows, err := pool.Query(ctx, `
		SELECT seq, txid, at, op, connector_id, coalesce(old_type, type), coalesce(type, old_type),
			coalesce(old_status, ''), coalesce(status, ''), old_session, session, old_lease,
			coalesce(failures, 0), coalesce(max_retries, 0), coalesce(old_due_reason, ''), old_slot, slot,
			old_planned, planned, cron, coalesce(time_zone, ''), rescheduled, reconfigured, answered,
			state IS NOT NULL, coalesce(state = '{}', false), `+fmt.Sprintf(version, "old_state")+`, `+fmt.Sprintf(version, "state")+`,
			`+fmt.Sprintf(done, "old_state")+`, `+fmt.Sprintf(done, "state")+`, stored
		FROM chaos.connector_events ORDER BY seq`)
	if err != nil {
		return err
	}
	h.events, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[event])
	for _, e := range h.events {
		h.byConnector[e.Connector] = append(h.byConnector[e.Connector], e)
	}
	return err
}

func (h *history) loadRuns(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `
		SELECT txid, at, op, id, connector_id, coalesce(old_status, ''), coalesce(status, ''), coalesce(reason, ''), trigger,
			slot, slot_last, coalesce(missed_count, 0), config_version
		FROM chaos.run_events ORDER BY seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var tx int64
		var op, from, to string
		now := run{}
		if err := rows.Scan(&tx, &now.at, &op, &now.id, &now.connector, &from, &to, &now.reason, &now.trigger,
			&now.slot, &now.last, &now.missed, &now.configVersion); err != nil {
			return err
		}
		r := h.runs[now.id]
		if r == nil {
			r = &now
			h.runs[r.id], h.ordered = r, append(h.ordered, r)
		}
		switch {
		case op == "DELETE":
			r.gone = true
		case to == "running":
			r.opened, r.openedBy = r.opened+1, tx
		default:
			r.ended, r.verdict, r.reason = r.ended+1, to, now.reason
		}
	}
	return rows.Err()
}

func (h *history) loadConfigs(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `SELECT connector_id, config_version, type, config FROM chaos.configs`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int32
		var version int64
		var c configured
		var text []byte
		if err := rows.Scan(&id, &version, &c.kind, &text); err != nil {
			return err
		}
		c.synthetic, c.troubled = readConfig(text)
		if h.configs[id] == nil {
			h.configs[id] = map[int64]configured{}
		}
		h.configs[id][version] = c
	}
	return rows.Err()
}

// readConfig tells the synthetic source from others by its seed, and a source that fails by its own fault: one with
// trouble, or the site of the harness that never answers.
func readConfig(text []byte) (synthetic *source.Config, troubled bool) {
	var c struct {
		Seed *int64
		URL  string
	}
	if err := json.Unmarshal(text, &c); err != nil || c.Seed == nil {
		const hanging = "/hang/"
		return nil, len(c.URL) > len(hanging) && c.URL[len(c.URL)-len(hanging):] == hanging
	}
	parsed, err := source.Parse(text)
	if err != nil {
		return nil, true
	}
	return &parsed, parsed.Trouble != ""
}

func (h *history) loadViolations(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `SELECT kind, format('connector %s at %s: %s', connector_id, at, message)
		FROM chaos.violations ORDER BY seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kind, message string
		if err := rows.Scan(&kind, &message); err != nil {
			return err
		}
		h.violations[kind] = append(h.violations[kind], message)
	}
	return rows.Err()
}

// seen adds what a trigger found at the moment it happened.
func (h *history) seen(f *Finding, kind string) {
	for _, message := range h.violations[kind] {
		f.violated("%s", message)
	}
}

// runOf is the run of a session; nil where there is none.
func (h *history) runOf(session *uuid.UUID) *run {
	if session == nil {
		return nil
	}
	return h.runs[*session]
}
