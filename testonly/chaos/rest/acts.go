package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
)

const (
	// pace is the time between two acts: who waits for an answer does nothing else.
	pace = 250 * time.Millisecond
	// fewest and mostSources bound how many connectors somebody has at a time, besides those for operations on many.
	fewest, mostSources = 4, 12
)

// source is a connector that somebody has added over REST, as they know it.
type source struct {
	id   int32
	name string
	off  bool
}

func (s *source) path(more string) string { return fmt.Sprintf("/connectors/%d%s", s.id, more) }

// Run acts until ctx ends.
func (p *Person) Run(ctx context.Context) {
	defer p.http.CloseIdleConnections()
	for sleep(ctx, pace) {
		p.act(ctx)
	}
}

// act does one thing. The first connectors are added first.
func (p *Person) act(ctx context.Context) {
	if len(p.sources) < fewest {
		p.create(ctx)
		return
	}
	of := p.sources[p.rng.IntN(len(p.sources))]
	switch roll := p.rng.IntN(20); {
	case roll < 5:
		p.look(ctx, of)
	case roll < 7:
		p.sync(ctx, of)
	case roll < 9:
		p.update(ctx, of)
	case roll < 11:
		p.turn(ctx, of)
	case roll < 14 && len(p.sources) < mostSources:
		p.create(ctx)
	case roll < 14:
		p.delete(ctx, of)
	default:
		p.actOnMany(ctx, of)
	}
}

// look reads something of a connector, or of all.
func (p *Person) look(ctx context.Context, of *source) {
	paths := []string{
		of.path(""), of.path("/status"), of.path("/why"), of.path("/runs"), "/connectors?type=" + p.kind, "/queue", "/operations", "/me",
		fmt.Sprintf("/audit?connector_id=%d", of.id),
	}
	p.read(ctx, http.MethodGet, paths[p.rng.IntN(len(paths))], nil)
}

// key is an Idempotency-Key of its own.
func (p *Person) key() string { return fmt.Sprintf("key-%d-%d", p.user, p.asked) }

// config is what a synthetic source needs to know.
func (p *Person) config() map[string]any {
	return map[string]any{"seed": p.rng.IntN(1 << 30), "documents": 1 + p.rng.IntN(3), "changes": 1, "milliseconds": p.rng.IntN(100), "mode": "delta"}
}

func (p *Person) create(ctx context.Context) {
	name := fmt.Sprintf("over REST %d-%d.", p.user, p.asked)
	a, asked := p.change(ctx, "connectors.create", request{method: http.MethodPost, path: "/connectors", key: p.key(), body: map[string]any{
		"name": name, "type": p.kind, "config": p.config(), "refresh_freq_minutes": nil, "max_retries": 1000, // nobody but its user switches it off
	}})
	var made struct {
		ID int32 `json:"id"`
	}
	if asked.Outcome == audit.Done && json.Unmarshal(a.body, &made) == nil {
		p.sources = append(p.sources, &source{id: made.ID, name: name})
	}
}

// sync asks for a sync. One that is switched off takes none.
func (p *Person) sync(ctx context.Context, of *source) {
	p.change(ctx, "connectors.sync", request{method: http.MethodPost, path: of.path("/sync"), key: p.key(), body: map[string]any{}})
}

// turn switches a connector off, or on again.
func (p *Person) turn(ctx context.Context, of *source) {
	word := "disable"
	if of.off {
		word = "enable"
	}
	_, asked := p.change(ctx, "connectors."+word, request{method: http.MethodPost, path: of.path("/" + word), key: p.key()})
	if of.off = !of.off; asked.Outcome != audit.Done {
		p.forget(of)
	}
}

// version is the ETag of a connector, as somebody reads it before a change. One that is not there is forgotten.
func (p *Person) version(ctx context.Context, of *source) (etag, name string) {
	a, ok := p.read(ctx, http.MethodGet, of.path(""), nil)
	var found struct {
		Name string `json:"name"`
	}
	switch {
	case a.status == http.StatusNotFound:
		p.forget(of)
	case ok && json.Unmarshal(a.body, &found) == nil:
		return a.etag, found.Name
	}
	return "", ""
}

// update changes the name of a connector, and sometimes its configuration. Who has had no answer, and finds that the version is another one, looks whether the change is made.
func (p *Person) update(ctx context.Context, of *source) {
	version, _ := p.version(ctx, of)
	if version == "" {
		return
	}
	name := fmt.Sprintf("over REST %d-%d.", p.user, p.asked)
	body := map[string]any{"name": name}
	if p.rng.IntN(2) == 0 {
		body["config"] = p.config()
	}
	a, asked := p.change(ctx, "connectors.update", request{method: http.MethodPatch, path: of.path(""), version: version, body: body})
	switch {
	case asked.Outcome == audit.Done:
		of.name = name
	case asked.Outcome == audit.Unknown && a.status == http.StatusPreconditionFailed:
		if _, now := p.version(ctx, of); now == name {
			asked.Outcome, of.name = audit.Done, name
		}
	}
	if asked.Outcome == audit.Unknown {
		p.forget(of)
	}
}

// delete deletes a connector. Who has had no answer, and finds that it is gone, has deleted it.
func (p *Person) delete(ctx context.Context, of *source) {
	version, _ := p.version(ctx, of)
	if version == "" {
		return
	}
	a, asked := p.change(ctx, "connectors.delete", request{method: http.MethodDelete, path: of.path(""), version: version})
	if asked.Outcome == audit.Unknown && a.status == http.StatusNotFound {
		asked.Outcome = audit.Done
	}
	if asked.Outcome != audit.Refused {
		p.forget(of)
	}
}

// forget has a connector not be changed any more: it is gone, or nobody knows how it stands.
func (p *Person) forget(of *source) {
	p.sources = slices.DeleteFunc(p.sources, func(s *source) bool { return s == of })
}
