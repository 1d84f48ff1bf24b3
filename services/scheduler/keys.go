package scheduler

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// mostReleased is how many that wait for concurrency keys one look makes due.
const mostReleased = 500

// takeKeys leaves out those of which a concurrency key is full: they wait for it. It says which keys the others have. holds says that they are
// to be claimed; else nothing is, and it only looks for more that have to wait.
func (s *Scheduler) takeKeys(ctx context.Context, tx pgx.Tx, all []dueNow, holds bool) (keys map[int32][]string, rest []dueNow, err error) {
	var ids []int32
	for _, d := range all {
		if d.row.HasKeys && d.runs() {
			ids = append(ids, d.row.ID)
		}
	}
	if len(ids) == 0 {
		return nil, all, nil
	}
	taken, err := s.queries.WithTx(tx).TakeKeys(ctx, dbgen.TakeKeysParams{Ids: ids, Holds: holds})
	if err != nil {
		return nil, nil, wrap("look for places of concurrency keys", err)
	}
	keys, waits := map[int32][]string{}, map[int32]bool{}
	for _, t := range taken {
		keys[*t.ConnectorID], waits[*t.ConnectorID] = t.Has, t.WaitsFor != nil
	}
	rest = make([]dueNow, 0, len(all))
	for _, d := range all {
		if !waits[d.row.ID] {
			rest = append(rest, d)
		}
	}
	return keys, rest, nil
}

// noteKeys writes down which keys the claimed runs have.
func (s *Scheduler) noteKeys(ctx context.Context, tx pgx.Tx, claims []claim, keys map[int32][]string) error {
	type place struct {
		RunID uuid.UUID `json:"run_id"`
		Keys  []string  `json:"keys"`
	}
	var places []place
	for _, c := range claims {
		if len(keys[c.ID]) > 0 {
			places = append(places, place{RunID: c.RunID, Keys: keys[c.ID]})
		}
	}
	if len(places) == 0 {
		return nil
	}
	text, err := json.Marshal(places)
	if err != nil {
		return wrap("write the concurrency keys", err)
	}
	return wrap("take places of concurrency keys", s.queries.WithTx(tx).NoteKeys(ctx, text))
}

// releaseWaiting makes those due who wait for a concurrency key that has a place again.
func (l *lanes) releaseWaiting(ctx context.Context) error {
	l.mu.Lock()
	after := l.afterKey
	l.mu.Unlock()
	r, err := deadline.Get(ctx, "scheduler.release_waiting", queryTimeout, func(ctx context.Context) (dbgen.ReleaseWaitingRow, error) {
		return l.scheduler.queries.ReleaseWaiting(ctx, dbgen.ReleaseWaitingParams{After: after, Batch: mostReleased})
	})
	if err != nil {
		return wrap("release those who wait for concurrency keys", err)
	}
	l.mu.Lock()
	if after != "" || r.Last != "" { // somebody waits: a verdict that came between the count of a full key and its flag wakes nobody
		l.said.again = sooner(l.said.again, pollEvery)
		signal(l.ended)
	}
	l.afterKey = r.Last
	l.mu.Unlock()
	return nil
}
