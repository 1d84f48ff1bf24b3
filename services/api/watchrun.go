package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/echomind/sync/services/api/internal/problem"
)

// lookAtRunEvery is how often a run is asked for that somebody watches: workers report how far they have come more seldom.
const lookAtRunEvery = 2 * time.Second

// RunWatch is which run to watch, and what of it was seen.
type RunWatch struct {
	ByRun
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that you have seen. Left out: none."`
}

// runWatcher is one stream of a run.
type runWatcher struct {
	*serverSent
	api *API
	run ByRun
	at  string // the id of what was told last
}

// watchRun begins a stream. Each event is told to whom sees the run at that moment.
func (a *API) watchRun(ctx context.Context, in *RunWatch) (*huma.StreamResponse, error) {
	lasting, _ := ctx.Value(lastingKey).(context.Context)
	now, err := a.getRun(ctx, &in.ByRun)
	if err != nil {
		return nil, err
	}
	if now.Body.CompletedAt != nil && stateOf(now.Body) == in.LastEventID {
		return &huma.StreamResponse{Body: func(to huma.Context) { to.SetStatus(http.StatusNoContent) }}, nil
	}
	if err := a.watchers.enter(lasting, requestOf(ctx).UserID); err != nil {
		return nil, err
	}
	w := &runWatcher{api: a, run: in.ByRun, at: in.LastEventID}
	return serveEvents(context.WithValue(lasting, requestKey, requestOf(ctx)), w.tell), nil
}

// stateOf is the id of how far a run has come.
func stateOf(r SyncRun) string {
	text, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(text)
	return fmt.Sprintf("%x", h.Sum64())
}

// tell goes on until the run is over or may not be seen any more, or the watcher goes or does not read.
func (w *runWatcher) tell(ctx context.Context, to *serverSent) {
	w.serverSent = to
	ticks := time.NewTicker(lookAtRunEvery)
	defer ticks.Stop()
	if w.send(fmt.Sprintf("retry: %d\n\n", retryAfter)) != nil {
		return
	}
	for {
		if isOver, err := w.look(ctx); isOver || err != nil {
			return
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		case <-w.api.watchers.ended:
			return
		}
	}
}

// look tells how far the run has come, if that is further than what was told. While Postgres is away nothing is told.
func (w *runWatcher) look(ctx context.Context) (isOver bool, err error) {
	now, err := w.api.getRun(ctx, &w.run)
	var refused *problem.Problem
	switch {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		return true, nil
	case err != nil:
		return false, w.alive(w.at)
	}
	isOver = now.Body.CompletedAt != nil
	at := stateOf(now.Body)
	if at == w.at {
		return isOver, w.alive(w.at)
	}
	w.at = at
	text, err := json.Marshal(now.Body)
	if err != nil {
		return true, err
	}
	return isOver, w.send(fmt.Sprintf("event: progress\nid: %s\ndata: %s\n\n", at, text))
}
