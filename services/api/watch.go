package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// isEventStream documents an operation that answers with server-sent events.
func isEventStream(o *huma.Operation) {
	o.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{Type: "string"}}}}}
}

func (a *API) watchRoutes() {
	register(a, identity.WatchEvents, http.MethodGet, "/events", "Watch what becomes of connectors and runs, as server-sent events", http.StatusOK, a.watch, func(o *huma.Operation) {
		o.Description += " Each event's data is a CloudEvent in JSON, as docs/contract.md has them; its event is `connector` or `run`. `reset` comes first where events between your place and now are " +
			"lost: GET what you show anew. Send the last id that you have seen as Last-Event-ID, and you go on behind it; browsers do. A stream ends within two minutes."
		isEventStream(o)
	})
	register(a, identity.WatchRun, http.MethodGet, "/runs/{run}/events", "Watch how far a run has come, as server-sent events", http.StatusOK, a.watchRun, func(o *huma.Operation) {
		o.Description += " Each event is `progress`, and its data the run as GET /runs/{run} shows it: first as it is now, then when it has come further. The stream ends within two minutes, or with the run; " +
			"who comes back behind the run's end with Last-Event-ID gets 204, and a browser does not come back again."
		isEventStream(o)
		o.Responses["204"] = &huma.Response{Description: "The run is over, and you have seen how it ended."}
	})
}

// Watch is what to watch, and from where on.
type Watch struct {
	Connectors  []int64 `query:"connectors" maxItems:"100" nullable:"false" doc:"Of these alone, by number, separated by commas. Those that you do not see are left out."`
	Added       bool    `query:"added" doc:"That connectors are added, too, whatever their numbers; without connectors that alone."`
	Waits       bool    `query:"waits" doc:"That connectors begin to wait for a worker and that they do so no more, too, whatever their numbers; without connectors that alone."`
	LastEventID string  `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that you have seen. Left out: from now on."`
}

// watch begins a stream. What it tells is of what whom it serves sees at that moment.
func (a *API) watch(ctx context.Context, in *Watch) (*huma.StreamResponse, error) {
	lasting, _ := ctx.Value(lastingKey).(context.Context)
	if err := a.watchers.enter(lasting, requestOf(ctx).UserID); err != nil {
		return nil, err
	}
	w := watcher{api: a, at: positionOf(in.LastEventID)}
	var err error
	if in.LastEventID != "" {
		err = a.feed.goesOn(ctx, w.at)
	} else {
		w.at, err = a.feed.end(ctx)
	}
	if err != nil {
		return nil, problem.EventsAway(err)
	}
	for _, id := range in.Connectors {
		number := int32(id)
		if int64(number) != id || number < 1 {
			return nil, problem.Invalid("query.connectors", fmt.Sprintf("%d is no number of a connector; they are from 1 to 2147483647", id))
		}
		w.only = append(w.only, number)
	}
	w.added, w.waits = in.Added, in.Waits
	if (w.added || w.waits) && w.only == nil {
		w.only = []int32{}
	}
	lasting = context.WithValue(lasting, requestKey, requestOf(ctx))
	return serveEvents(lasting, w.tell), nil
}

// watcher is one stream.
type watcher struct {
	*serverSent
	api  *API
	at   position
	only []int32 // nil = every connector
	// added: and every connector's addition
	added bool
	// waits: and what begins or ends to wait
	waits bool
}

// tell goes on until the watcher goes or does not read, or the stream's time is over.
func (w *watcher) tell(ctx context.Context, to *serverSent) {
	w.serverSent = to
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	if w.begin(w.at.String()) != nil {
		return
	}
	for {
		w.api.feed.look(ctx)
		isMore, err := w.page(ctx)
		if err != nil {
			return
		}
		if isMore {
			continue
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

// page tells what is behind the place, up to a page of events. Where Postgres does not say who sees what, nothing is told yet. Errors are those of writing.
func (w *watcher) page(ctx context.Context) (isMore bool, err error) {
	some, next, isWhole := w.api.feed.behind(w.at)
	if !isWhole {
		w.at = next
		return false, w.send(fmt.Sprintf("event: reset\nid: %s\ndata: {}\n\n", next))
	}
	seen, err := w.seen(ctx, some, next)
	if err != nil {
		return false, w.alive(w.at.String())
	}
	w.at = next
	var text bytes.Buffer
	for _, e := range some {
		if !w.isFor(e, seen) {
			continue
		}
		kind := "connector"
		if e.isRun {
			kind = "run"
		}
		fmt.Fprintf(&text, "event: %s\nid: %s\ndata: %s\n\n", kind, e.position, e.text)
	}
	if text.Len() == 0 {
		return len(some) == pageEvents, w.alive(w.at.String())
	}
	return len(some) == pageEvents, w.send(text.String())
}

// names says whether it is an event that was asked for.
func (w *watcher) names(e told) bool {
	return len(e.text) > 0 && (w.only == nil || w.added && e.isAdded || w.waits && e.isWait || slices.Contains(w.only, e.connector))
}

func (w *watcher) isFor(e told, seen seenSince) bool {
	since, is := seen[e.subject]
	return w.names(e) && is && (since == nil || !e.since.Before(*since))
}

// seen is what is seen of events. It is asked of all of them, so that the answer is every stream's of the same viewer.
func (w *watcher) seen(ctx context.Context, some []told, next position) (seenSince, error) {
	if !slices.ContainsFunc(some, w.names) {
		return nil, nil
	}
	who := requestOf(ctx)
	groups, _, _ := who.GroupSettings()
	viewer := fmt.Sprintf("%d %s %q", who.UserID, who.Role, groups)
	return w.api.feed.sight(sightOf{viewer, w.at, next}, func() (seenSince, error) {
		var of dbgen.EventsSeenOfParams
		for _, e := range some {
			switch {
			case len(e.text) == 0:
			case e.isGone:
				of.Gone = append(of.Gone, e.connector)
			default:
				of.Ids = append(of.Ids, e.connector)
			}
		}
		slices.Sort(of.Ids)
		of.Ids = slices.Compact(of.Ids)
		since := seenSince{}
		err := w.api.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
			rows, err := q.EventsSeenOf(ctx, of)
			for _, r := range rows {
				since[subject{r.ID, r.IsGone}] = r.Since
			}
			return err
		})
		return since, err
	})
}

// watchers bounds how many streams are open.
type watchers struct {
	most  int
	gauge prometheus.Gauge
	ended chan struct{} // closed where the service stops
	end   func()

	mu   sync.Mutex
	all  int
	each map[int32]int // by user
}

func newWatchers(most int, gauge prometheus.Gauge) *watchers {
	w := &watchers{most: most, gauge: gauge, ended: make(chan struct{}), each: map[int32]int{}}
	w.end = sync.OnceFunc(func() { close(w.ended) })
	return w
}

// enter takes a place until a request's connection ends.
func (w *watchers) enter(ctx context.Context, user int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.each[user] >= max(1, w.most/10):
		return problem.ManyWatchers(fmt.Sprintf("You have %d streams of events open, as many as one user may have.", w.each[user]), "Close one, or watch several connectors in one.")
	case w.all >= w.most:
		return problem.ManyWatchers("As many streams of events are open as this service serves.", "Try again after Retry-After.")
	}
	w.all++
	w.each[user]++
	w.gauge.Set(float64(w.all))
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all--
		if w.each[user]--; w.each[user] == 0 {
			delete(w.each, user)
		}
		w.gauge.Set(float64(w.all))
	})
	return nil
}
