package api

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// lookAtRunsEvery is how often the watched runs are read: workers report how far they have come more seldom.
	lookAtRunsEvery = 2 * time.Second
	// runsAtOnce bounds how many watchers one statement reads runs for, and so how much its answer may be.
	runsAtOnce = 50
)

// watchedRuns reads the runs of all streams of this process, on one connection to Postgres at a time. It reads while there are watchers.
type watchedRuns struct {
	api *API

	mu   sync.Mutex
	all  map[*runWatcher]struct{}
	stop func() // ends the reading, and waits for its end
}

// watchedRun is a run as one watcher sees it.
type watchedRun struct {
	WatchedBy     int32 // from 1 on, in the order of the statement's watchers
	ConnectorName *string
	dbgen.ApiRun
}

func (r watchedRun) view() SyncRun {
	run := viewRun(r.ApiRun)
	run.ConnectorName = r.ConnectorName
	return run
}

func newWatchedRuns(a *API) *watchedRuns {
	return &watchedRuns{api: a, all: map[*runWatcher]struct{}{}}
}

// enter has a watcher be told of its run until it leaves. The last one that leaves waits for the end of the reading.
func (r *watchedRuns) enter(w *runWatcher) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[w] = struct{}{}
	if len(r.all) == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		var reading sync.WaitGroup
		reading.Go(func() { r.readUntil(ctx) })
		r.stop = func() {
			cancel()
			reading.Wait()
		}
	}
	return func() {
		stop := func() {}
		r.mu.Lock()
		if delete(r.all, w); len(r.all) == 0 {
			stop = r.stop
		}
		r.mu.Unlock() // the reading asks for the watchers
		stop()
	}
}

func (r *watchedRuns) readUntil(ctx context.Context) {
	ticks := time.NewTicker(lookAtRunsEvery)
	defer ticks.Stop()
	isAway := false
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		err := caught.Do(func() error { return r.look(ctx) })
		if err != nil && !isAway && ctx.Err() == nil {
			r.api.log.Warn("watched runs are not read, and their streams tell nothing meanwhile", "err", err)
		}
		isAway = err != nil
	}
}

// look reads every watched run once. What cannot be read is read at the next look.
func (r *watchedRuns) look(ctx context.Context) (failed error) {
	for some := range slices.Chunk(r.watchers(), runsAtOnce) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.lookFor(ctx, some); err != nil {
			failed = err
		}
	}
	return failed
}

// watchers are all who watch now; those of one viewer and of one run beside each other.
func (r *watchedRuns) watchers() []*runWatcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*runWatcher, 0, len(r.all))
	for w := range r.all {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *runWatcher) int {
		return cmp.Or(cmp.Compare(a.viewer, b.viewer), slices.Compare(a.run[:], b.run[:]))
	})
	return all
}

// watchedRunsOf asks in one statement. It is no query of sqlc's, which does not know the columns of a function's row.
const watchedRunsOf = `SELECT v.no::integer, w.connector_name, (w.run).* FROM unnest($1::text[]) WITH ORDINALITY v(viewer, no) CROSS JOIN LATERAL (
	SELECT array_agg(i.id) AS ids, array_agg(i.began) AS began FROM unnest($2::integer[], $3::uuid[], $4::timestamptz[]) i(no, id, began) WHERE i.no = v.no) k
CROSS JOIN LATERAL api.watched_runs(v.viewer::jsonb, k.ids, k.began) w`

// lookFor tells some watchers what each of them sees of its run now. It waits for none of them.
func (r *watchedRuns) lookFor(ctx context.Context, some []*runWatcher) error {
	type seenBy struct {
		viewer int32
		run    uuid.UUID
	}
	var viewers []string
	var watchedBy []int32
	var ids []uuid.UUID
	var began []time.Time
	asked := map[*runWatcher]seenBy{}
	for i, w := range some {
		isOther := i == 0 || w.viewer != some[i-1].viewer
		if isOther {
			viewers = append(viewers, w.viewer)
		}
		no := int32(len(viewers))
		if asked[w] = (seenBy{no, w.run}); isOther || w.run != some[i-1].run {
			watchedBy, ids, began = append(watchedBy, no), append(ids, w.run), append(began, w.began)
		}
	}
	seen := map[seenBy]*watchedRun{}
	err := r.api.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		clear(seen) // the transaction may be a repetition
		rows, err := tx.Query(ctx, watchedRunsOf, viewers, watchedBy, ids, began)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[watchedRun])
		for i, run := range found { // one that has ended meanwhile may be there twice, and has ended
			seen[seenBy{run.WatchedBy, run.ID}] = &found[i]
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range some {
		w.tells(seen[asked[w]])
	}
	return nil
}

// viewerOf is who somebody is to api.watched_runs, which finds out what they may at each look.
func viewerOf(who identity.Who) string {
	text, err := json.Marshal(struct {
		UserID     int32    `json:"user_id"`
		TokenID    int32    `json:"token_id,omitempty"`
		Issuer     string   `json:"issuer,omitempty"`
		Subject    string   `json:"subject,omitempty"`
		SaidRole   *string  `json:"said_role,omitempty"`
		SaidGroups []string `json:"said_groups"`
		SaidLeads  []string `json:"said_leads"`
	}{who.UserID, who.TokenID, who.Issuer, who.Subject, who.SaidRole, append([]string{}, who.SaidGroups...), append([]string{}, who.SaidLeads...)})
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}
