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
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// lastingKey is of the context that ends with a request's connection, not with its deadline.
const lastingKey contextKey = iota + 3

// answerKey is of the answer itself, whose connection has its own deadlines.
const answerKey contextKey = iota + 5

const (
	// watchFor is for how long a stream of events goes on: who goes on behind it is signed in anew.
	watchFor = 2 * time.Minute
	// beatEvery is after how long without an event something is sent, with the place.
	beatEvery = 15 * time.Second
	// sendTimeout bounds each write: who does not read is not waited for.
	sendTimeout = 3 * time.Second // less than a stop waits
	// retryAfter is in how many milliseconds a browser comes back, as an event stream says it.
	retryAfter = 1000

	eventStream = "text/event-stream"
)

func (a *API) watchRoutes() {
	register(a, identity.WatchEvents, http.MethodGet, "/events", "Watch what becomes of connectors and runs, as server-sent events", http.StatusOK, a.watch, func(o *huma.Operation) {
		o.Description += " Each event's data is a CloudEvent in JSON, as docs/contract.md has them; its event is `connector` or `run`. `reset` comes first where events between your place and now are " +
			"lost: GET what you show anew. Send the last id that you have seen as Last-Event-ID, and you go on behind it; browsers do. A stream ends within two minutes."
		o.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{eventStream: {Schema: &huma.Schema{Type: "string"}}}}}
	})
}

// Watch is what to watch, and from where on.
type Watch struct {
	Connectors  []int64 `query:"connectors" maxItems:"100" nullable:"false" doc:"Of these alone, by number, separated by commas. Those that you do not see are left out."`
	LastEventID string  `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that you have seen. Left out: from now on."`
}

// watch begins a stream. What it tells is of what whom it serves sees at that moment.
func (a *API) watch(ctx context.Context, in *Watch) (*huma.StreamResponse, error) {
	lasting, _ := ctx.Value(lastingKey).(context.Context)
	if err := a.watchers.enter(lasting, requestOf(ctx).UserID); err != nil {
		return nil, err
	}
	w := watcher{api: a, at: positionOf(in.LastEventID), beat: time.Now()}
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
	lasting = context.WithValue(lasting, requestKey, requestOf(ctx))
	return &huma.StreamResponse{Body: func(to huma.Context) {
		to.SetHeader("Content-Type", eventStream)
		to.SetHeader("X-Accel-Buffering", "no") // nginx would keep it back
		_, w.out = humago.Unwrap(to)
		w.tell(lasting)
	}}, nil
}

// watcher is one stream.
type watcher struct {
	api  *API
	out  http.ResponseWriter
	at   position
	only []int32   // nil = every connector
	beat time.Time // when something was sent last
}

// tell goes on until whoever watches goes, does not read, or the stream's time is over.
func (w *watcher) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	if answer, is := w.out.(*answer); is {
		answer.isStream = true
	}
	_ = http.NewResponseController(w.out).SetReadDeadline(time.Time{}) // that of the request's body would end it
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	if w.send(fmt.Sprintf("retry: %d\nid: %s\n\n", retryAfter, w.at)) != nil {
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
		return false, w.alive()
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
		return len(some) == pageEvents, w.alive()
	}
	return len(some) == pageEvents, w.send(text.String())
}

// names says whether it is an event that was asked for.
func (w *watcher) names(e told) bool {
	return len(e.text) > 0 && (w.only == nil || slices.Contains(w.only, e.connector))
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
	who := served(requestOf(ctx))
	viewer := fmt.Sprintf("%d %s %q", requestOf(ctx).UserID, requestOf(ctx).Role, who.Groups)
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

// alive tells the place, if nothing was told for long: so that whoever comes back does not begin far behind, and a proxy does not take it for dead.
func (w *watcher) alive() error {
	if time.Since(w.beat) < beatEvery {
		return nil
	}
	return w.send(fmt.Sprintf("id: %s\n\n", w.at))
}

func (w *watcher) send(text string) error {
	control := http.NewResponseController(w.out)
	if err := control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := w.out.Write([]byte(text)); err != nil {
		return err
	}
	w.beat = time.Now()
	return control.Flush()
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
