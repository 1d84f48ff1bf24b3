package api

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
)

// RunWatch is which run to watch, and what of it was seen.
type RunWatch struct {
	ByRun
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that you have seen. Left out: none."`
}

// runWatcher is one stream of a run.
type runWatcher struct {
	*serverSent
	api    *API
	run    uuid.UUID
	began  time.Time // when the run began
	viewer string    // whom the stream is for, as viewerOf says it
	at     string    // the id of what was told last
	// news is what the last look has found, until the watcher takes it; nil: the watcher does not see the run any more.
	news chan *watchedRun
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
	who := requestOf(ctx).Who
	if err := a.watchers.enter(lasting, who.UserID); err != nil {
		return nil, err
	}
	w := &runWatcher{api: a, run: in.Run, began: now.Body.StartedAt, viewer: viewerOf(who), at: in.LastEventID, news: make(chan *watchedRun, 1)}
	return serveEvents(lasting, func(ctx context.Context, to *serverSent) {
		w.serverSent = to
		w.tell(ctx, now.Body)
	}), nil
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
func (w *runWatcher) tell(ctx context.Context, first SyncRun) {
	defer w.api.watched.enter(w)()
	ticks := time.NewTicker(lookAtRunsEvery)
	defer ticks.Stop()
	if w.send(fmt.Sprintf("retry: %d\n\n", retryAfter)) != nil {
		return
	}
	isOver, err := w.show(first)
	for !isOver && err == nil {
		select {
		case found := <-w.news:
			if found == nil {
				return
			}
			isOver, err = w.show(found.view())
		case <-ticks.C: // also while Postgres is away
			err = w.alive(w.at)
		case <-ctx.Done():
			return
		case <-w.api.watchers.ended:
			return
		}
	}
}

// tells replaces what the watcher has not taken yet: one who is slow holds nobody, and is told the newest alone.
func (w *runWatcher) tells(found *watchedRun) {
	select {
	case <-w.news:
	default:
	}
	select {
	case w.news <- found:
	default: // another look was faster
	}
}

// show tells how far the run has come, if that is further than what was told.
func (w *runWatcher) show(run SyncRun) (isOver bool, err error) {
	isOver = run.CompletedAt != nil
	at := stateOf(run)
	if at == w.at {
		return isOver, w.alive(w.at)
	}
	w.at = at
	text, err := json.Marshal(run)
	if err != nil {
		return true, err
	}
	return isOver, w.send(fmt.Sprintf("event: progress\nid: %s\ndata: %s\n\n", at, text))
}
