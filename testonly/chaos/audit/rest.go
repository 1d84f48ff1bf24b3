package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

// rest: at the end nothing is on its way, so that nothing needs an explanation.
func rest(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 1, Name: "nothing is stuck",
		How: "at rest no connector is PENDING, SYNCING, due, unplanned or triggered",
	}
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM connectors`).Scan(&f.Checked); err != nil {
		return f, wrap("count the connectors", err)
	}
	rows, err := pool.Query(ctx, `
		SELECT format('connector %s (%s) is %s, run %s, dispatched at %s, try %s, lease until %s, due at %s for %s, triggered at %s%s',
			c.id, c.type, c.status, c.run_id, r.dispatched_at, r.try_id, w.expires_at, c.next_sync_at, c.due_reason,
			c.trigger_requested_at, CASE WHEN c.needs_plan THEN ', unplanned' END)
		FROM connectors c LEFT JOIN open_runs r ON r.connector_id = c.id LEFT JOIN workers w ON w.id = r.worker_id
		WHERE c.run_id IS NOT NULL OR r.id IS NOT NULL OR (c.next_sync_at <= clock_timestamp() AND NOT c.asks_upstreams) OR c.needs_plan
			OR c.trigger_requested_at IS NOT NULL OR c.parameters_due_at IS NOT NULL
		UNION ALL
		SELECT format('run %s of connector %s, which does not exist, is open', r.id, r.connector_id)
		FROM open_runs r WHERE NOT EXISTS (SELECT FROM connectors c WHERE c.id = r.connector_id)
		ORDER BY 1`)
	if err != nil {
		return f, wrap("look for what is not at rest", err)
	}
	stuck, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, line := range stuck {
		f.violated("%s", line)
	}
	return f, wrap("look for what is not at rest", err)
}

func (h *history) asked() Finding {
	f := Finding{
		Promise: 1, Name: "no trigger is forgotten",
		How: "what a user has asked for stands until a worker begins to read, or the connector is DISABLED",
	}
	for _, e := range h.events {
		if !e.Answered {
			continue
		}
		f.Checked++
		if !(e.From == "PENDING" && e.To == "SYNCING") && e.To != "DISABLED" {
			f.violated("%s went from %s to %s and was asked for nothing any more", e, e.From, e.To)
		}
	}
	return f
}

// Unexplained lists the connectors that are PENDING or SYNCING, and that no queued message, lease or drain explains:
// nothing will ever move them but the watch of a scheduler. Asked while everything works, it may name what has just
// lost its explanation; what it names for longer than every timeout is stuck. queued says which sessions the streams
// hold messages of.
func Unexplained(
	ctx context.Context, pool *pgxpool.Pool, queued func(context.Context) (map[uuid.UUID]bool, error),
) ([]string, error) {
	// The streams are asked first: what is picked up meanwhile is explained by its lease.
	waiting, err := queued(ctx)
	if err != nil {
		return nil, wrap("ask what is queued", err)
	}
	rows, err := pool.Query(ctx, `
		SELECT c.id, c.type, c.status, c.run_id, coalesce(w.expires_at > clock_timestamp(), false)
		FROM connectors c LEFT JOIN open_runs r ON r.id = c.run_id LEFT JOIN workers w ON w.id = r.worker_id
		WHERE c.run_id IS NOT NULL ORDER BY c.id`)
	if err != nil {
		return nil, wrap("ask what is in flight", err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id int32
		var kind, status string
		var session uuid.UUID
		var leased bool
		if err := rows.Scan(&id, &kind, &status, &session, &leased); err != nil {
			return nil, wrap("ask what is in flight", err)
		}
		if !leased && !waiting[session] {
			all = append(all, fmt.Sprintf("connector %d (%s) is %s, and neither a lease nor a message of session %s explains it",
				id, kind, status, session))
		}
	}
	return all, wrap("ask what is in flight", rows.Err())
}

// Queued reads both streams for Unexplained.
func Queued(stream jetstream.JetStream) func(context.Context) (map[uuid.UUID]bool, error) {
	return func(ctx context.Context) (map[uuid.UUID]bool, error) {
		sessions := map[uuid.UUID]bool{}
		for _, name := range []string{topology.SyncStream, topology.DocumentStream} {
			if err := addQueued(ctx, stream, name, sessions); err != nil {
				return nil, wrap("read stream "+name, err)
			}
		}
		return sessions, nil
	}
}

func addQueued(ctx context.Context, js jetstream.JetStream, name string, sessions map[uuid.UUID]bool) error {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // acknowledged
		}
		if err != nil {
			return err
		}
		text := msg.Header.Get(topology.HeaderSession)
		if request := (&internalpb.ConnectorSyncRequest{}); name == topology.SyncStream && proto.Unmarshal(msg.Data, request) == nil {
			text = request.ChunkingSession
		}
		if session, err := uuid.Parse(text); err == nil {
			sessions[session] = true
		}
	}
	return nil
}
