package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
)

// manyPause is the time between two operations of one person, at least.
const manyPause = 2 * time.Second

// many are somebody's operations.
type many struct {
	asked int
	last  time.Time
	// open is the operation that has not ended as far as its user knows; 0 = none.
	open int32
}

// NameOfMany is how the connectors are called on which somebody's operations work, each with its number behind it.
func NameOfMany(user int32) string { return fmt.Sprintf("many of %d, ", user) }

// turns are what operations do, one after the other: each to all, but that the last sync is of those whose number begins with 1, and the deletion of a connector by itself. The
// first sync names connectors that are switched off: each is refused.
var turns = []string{"disable", "sync", "enable", "sync some", "delete"}

// actOnMany begins an operation on many, or asks how far the last one has come.
func (p *Person) actOnMany(ctx context.Context, of *source) {
	if p.many.open != 0 {
		p.follow(ctx)
		return
	}
	if time.Since(p.many.last) < manyPause {
		return
	}
	action, name := turns[p.many.asked%len(turns)], NameOfMany(p.user)
	switch action {
	case "sync some":
		action, name = "sync", name+"1"
	case "delete":
		name = of.name
	}
	body := map[string]any{"action": action, "filter": map[string]any{"type": p.kind, "name": name}}
	a, ok := p.read(ctx, http.MethodPost, "/operations/preview", body)
	var preview struct {
		Confirm *string `json:"confirm"`
	}
	if !ok || json.Unmarshal(a.body, &preview) != nil || preview.Confirm == nil {
		return
	}
	body["confirm"] = *preview.Confirm
	p.many.asked, p.many.last = p.many.asked+1, time.Now()
	if action == "delete" {
		p.forget(of)
	}
	a, asked := p.change(ctx, "operations.create", request{method: http.MethodPost, path: "/operations", key: p.key(), body: body})
	var made struct {
		ID int32 `json:"id"`
	}
	if asked.Outcome == audit.Done && json.Unmarshal(a.body, &made) == nil {
		p.many.open = made.ID
	}
}

// follow asks how far the last operation has come.
func (p *Person) follow(ctx context.Context) {
	a, ok := p.read(ctx, http.MethodGet, fmt.Sprintf("/operations/%d", p.many.open), nil)
	var found struct {
		EndedAt *time.Time `json:"ended_at"`
	}
	if a.status == http.StatusNotFound || ok && json.Unmarshal(a.body, &found) == nil && found.EndedAt != nil {
		p.many.open = 0
	}
}
