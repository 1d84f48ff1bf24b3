package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/chaos/source"
)

// event is one move of a connector.
type event struct {
	Seq, Tx int64
	// At is when it happened, Began not later than any clock that its statement has read.
	At, Began              time.Time
	Op                     string
	Connector              int32
	OldType, Type          string
	From, To               string // status; empty before it was added and after it was deleted
	OldRun, Run            *uuid.UUID
	Failures, MaxRetries   int
	OldReason              string
	OldSlot, Slot          *time.Time
	OldPlanned, Planned    *time.Time
	Cron                   *string
	TimeZone               string
	DSTGap, DSTOverlap     *string
	OncePer, Calendar      *string
	CalendarUse, Condition *string
	Met, Triggered         bool       // before it: its condition was met, somebody had asked for a sync
	ClaimedFor             *time.Time // what its sync is for
	ConfigVersion          int64
	Reconfigured           bool
	Answered               bool
	Asked                  bool      // it is in a run with parameters, or that is over by this
	Opened                 time.Time // when its transaction began
	Owner                  int32
	StateMoved, StateEmpty bool
	OldVersion, Version    *int
	OldDone, Done          int // documents of the next version that a checkpoint stands for
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

// life is one connector: an id may be added again after it was deleted.
type life struct {
	connector int32
	added     int
}

// step is one event of a run.
type step struct {
	Seq, Tx         int64
	At              time.Time
	What            string
	ID              uuid.UUID
	Connector       int32
	Trigger         string
	Asked           bool
	Slot, SlotLast  *time.Time
	Missed          int
	ConfigVersion   int64
	CheckpointNo    int64
	Status, Reason  string
	Said            string
	Refused         bool
	Try, Worker     *uuid.UUID
	Lease, PickedUp *time.Time
	Drained         bool
}

// run is what its steps say of a run, or of slots that were missed.
type run struct {
	id            uuid.UUID
	life          life
	trigger       string
	asked         bool // it has parameters
	slot, last    *time.Time
	missed        int
	configVersion int64
	checkpointNo  int64
	verdict       string // empty while it has none
	reason, said  string
	endedAt       int64 // the event by which it got its verdict
	// refused: it failed because a message lied about whose it is.
	refused bool
	at      time.Time
	// openedBy, closedBy and endedBy are transactions.
	openedBy, closedBy, endedBy int64
	// How often each happened, and whether it is gone from the ledger.
	opened, pickedUp, closed, ended int
	gone                            bool
	drained                         bool // when it ended
	claimed                         bool
}

func (r *run) String() string {
	return fmt.Sprintf("run %s of connector %d (%s, since %s)", r.id, r.life.connector, r.trigger, r.at.Format(time.RFC3339Nano))
}

func (r *run) synced() bool { return r.verdict == "completed" || r.verdict == "skipped" }

// configured is one configuration of a connector.
type configured struct {
	kind      string
	synthetic *source.Config // nil for another source
	troubled  bool
	matter    string // what the condition of a job asks about
}

type history struct {
	events     []*event
	byLife     map[life][]*event
	steps      []*step
	runs       map[uuid.UUID]*run
	ordered    []*run
	configs    map[int32]map[int64]configured
	written    int  // events of documents
	forged     bool // Options.Forged
	violations map[string][]string
	calendars  map[string][]calendarVersion
	matters    map[string][]matterEvent
	blackouts  map[string][]blackoutVersion
}

func load(ctx context.Context, pool *pgxpool.Pool) (*history, error) {
	h := &history{
		byLife: map[life][]*event{}, runs: map[uuid.UUID]*run{}, configs: map[int32]map[int64]configured{},
		violations: map[string][]string{}, calendars: map[string][]calendarVersion{}, matters: map[string][]matterEvent{},
	}
	for _, read := range []func(context.Context, *pgxpool.Pool) error{h.loadEvents, h.loadRuns, h.loadConfigs, h.loadViolations, h.loadRules, h.loadBlackouts} {
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
		SELECT seq, txid, at, began, op, connector_id, coalesce(old_type, type), coalesce(type, old_type),
			coalesce(old_status, ''), coalesce(status, ''), old_run, run,
			coalesce(failures, 0), coalesce(max_retries, 0), coalesce(old_due_reason, ''), old_slot, slot,
			old_planned, planned, cron, coalesce(time_zone, ''), dst_gap, dst_overlap,
			once_per, calendar, calendar_use, condition, met, triggered, claimed_for, config_version, reconfigured, answered, asked, opened, coalesce(owner, 0),
			state IS NOT NULL, coalesce(state = '{}', false), `+fmt.Sprintf(version, "old_state")+`, `+fmt.Sprintf(version, "state")+`,
			`+fmt.Sprintf(done, "old_state")+`, `+fmt.Sprintf(done, "state")+`, stored
		FROM chaos.connector_events ORDER BY seq`)
	if err != nil {
		return err
	}
	h.events, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[event])
	added := map[int32]int{}
	for _, e := range h.events {
		if e.Op == "INSERT" {
			added[e.Connector]++
		}
		l := life{e.Connector, added[e.Connector]}
		h.byLife[l] = append(h.byLife[l], e)
	}
	return err
}

// lifeAt is the connector that an id stood for at an event, and with a configuration: slots that passed before a connector was
// deleted have their verdict after it, when another may have its id.
func (h *history) lifeAt(connector int32, seq, configVersion int64) life {
	l := life{connector: connector}
	for ; ; l.added++ {
		next := h.byLife[life{connector, l.added + 1}]
		if len(next) == 0 || next[0].Seq > seq || next[0].ConfigVersion > configVersion {
			return l
		}
	}
}

// noRun says that it is the verdict of slots that no run answers, or of a condition that failed before one.
func (r *run) noRun() bool {
	return r.verdict == "missed" || r.missed > 0 || r.reason == string(lifecycle.ConditionFailed)
}

func (h *history) loadRuns(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `
		SELECT seq, txid, at, what, id, connector_id, trigger, asked, slot, slot_last, coalesce(missed_count, 0), config_version,
			checkpoint_no, coalesce(status, ''), coalesce(reason, ''), coalesce(said, ''), refused, try, worker, lease, picked_up, coalesce(drained, false)
		FROM chaos.run_events ORDER BY seq`)
	if err != nil {
		return err
	}
	if h.steps, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[step]); err != nil {
		return err
	}
	for _, s := range h.steps {
		r := h.runs[s.ID]
		if r == nil {
			r = &run{
				id: s.ID, life: h.lifeAt(s.Connector, s.Seq, s.ConfigVersion), trigger: s.Trigger, asked: s.Asked, slot: s.Slot, last: s.SlotLast, missed: s.Missed,
				configVersion: s.ConfigVersion, at: s.At,
			}
			h.runs[r.id], h.ordered = r, append(h.ordered, r)
		}
		switch s.What {
		case "open":
			r.opened, r.openedBy = r.opened+1, s.Tx
		case "pick up":
			r.pickedUp++
		case "end":
			r.closed, r.closedBy, r.drained = r.closed+1, s.Tx, s.Drained
		case "verdict":
			r.ended, r.endedBy, r.verdict, r.reason, r.checkpointNo = r.ended+1, s.Tx, s.Status, s.Reason, s.CheckpointNo
			r.refused, r.said, r.endedAt = s.Refused, s.Said, s.Seq
		case "gone":
			r.gone = true
		}
	}
	return nil
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
		c.matter = readMatter(text)
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

func readMatter(text []byte) string {
	var c struct{ Matter string }
	_ = json.Unmarshal(text, &c) // of another source
	return c.Matter
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

// runOf is a run by its id; nil where there is none.
func (h *history) runOf(id *uuid.UUID) *run {
	if id == nil {
		return nil
	}
	return h.runs[*id]
}

// configOf is what a run was told to fetch.
func (h *history) configOf(r *run) (configured, bool) {
	c, exists := h.configs[r.life.connector][r.configVersion]
	return c, exists
}
