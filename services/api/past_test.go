//go:build !race

package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/movestest"
)

// An entry shows what a connector was before and after: it is for who saw both, and sees it now.
func TestWhatAConnectorWasIsForWhoSawItThenAndSeesItNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, other, super := w.as(8, identity.User), w.as(7, identity.User), w.as(1, identity.Superadmin)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, config) VALUES ('x', 'web', 8, '{"url":"https://private.example/"}') RETURNING id`)
	path := fmt.Sprintf("/audit?connector_id=%d", id)
	shown := func(c caller) (names []string) {
		for _, e := range c.get(path)["entries"].([]any) {
			names = append(names, fmt.Sprint(e.(map[string]any)["action"], e.(map[string]any)["note"]))
		}
		return names
	}
	change := func(note string, body map[string]any) {
		require.Equal(t, 200, super.do("PATCH", fmt.Sprintf("/connectors/%d", id), body, "If-Match", "*", "Audit-Note", note).status)
	}
	change("opened", map[string]any{"scope": "org", "config": map[string]any{"url": "https://open.example/"}})
	change("open", map[string]any{"name": "y"})
	require.Equal(t, []string{"connectors.updateopen"}, shown(other))
	require.Equal(t, []string{"connectors.updateopen", "connectors.updateopened", "connectors.create<nil>"}, shown(owner))
	change("closed", map[string]any{"scope": "user", "config": map[string]any{"url": "https://private.example/"}})
	require.Empty(t, shown(other))
	change("reopened", map[string]any{"scope": "org", "config": map[string]any{"url": "https://open.example/"}})
	require.Equal(t, []string{"connectors.updateopen"}, shown(other))
	change("given", map[string]any{"scope": "user", "user_id": 9})
	require.Empty(t, shown(owner))
	require.Len(t, shown(super), 6)
}

// What a run of a private time says is for who saw it then: its owner, and superadmins.
func TestARunOfBeforeAConnectorWasOpenedIsForWhoSawItThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, other, super := w.as(8, identity.User), w.as(7, identity.User), w.as(1, identity.Superadmin)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 8) RETURNING id`)
	path := fmt.Sprintf("/connectors/%d", id)
	var runs []uuid.UUID
	run := func() {
		w.exec(`SELECT moves.trigger_sync($1)`, id)
		runs = append(runs, movestest.Claim(w, w.conn, id))
		require.Equal(t, 200, super.do("POST", "/runs/"+runs[len(runs)-1].String()+"/cancel", nil).status)
	}
	sees := func(c caller, want ...int) {
		t.Helper()
		for _, list := range []string{path + "/runs", "/runs"} {
			r := c.do("GET", list, nil)
			for n, id := range runs {
				require.Equal(t, slices.Contains(want, n), strings.Contains(r.text, id.String()), "%s: run %d", list, n)
				require.Equal(t, slices.Contains(want, n), c.do("GET", "/runs/"+id.String(), nil).status == 200, "run %d", n)
			}
		}
	}
	change := func(body map[string]any) {
		require.Equal(t, 200, super.do("PATCH", path, body, "If-Match", "*").status)
	}
	run()
	sees(owner, 0)
	sees(other)
	change(map[string]any{"scope": "org", "config": map[string]any{"url": "https://open.example/"}})
	run()
	change(map[string]any{"config": map[string]any{"url": "https://open.example/b"}})
	run()
	sees(owner, 0, 1, 2)
	sees(other, 1, 2)
	change(map[string]any{"type": "file"})
	sees(owner, 0, 1, 2)
	sees(other)
	change(map[string]any{"user_id": 7})
	run()
	sees(owner, 3)
	sees(other, 3)
	sees(super, 0, 1, 2, 3)
	w.exec(`DELETE FROM connectors`)
	require.Zero(t, one[int](w, `SELECT count(*) FROM connector_handovers`))
}

// Its status, failure and documents do not tell its new owner, or new viewers, what they were before.
func TestWhatAConnectorSaidBeforeAHandoverIsForWhoSawItThen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]any{
		"given":  {"user_id": 8, "config": map[string]any{"url": "https://other.example/"}},
		"opened": {"scope": "org", "config": map[string]any{"url": "https://other.example/"}},
	} {
		w := newWorld(t)
		owner, other, super := w.as(7, identity.User), w.as(8, identity.User), w.as(1, identity.Superadmin)
		c := w.something(identity.Ownership{UserID: 7, Scope: "user"})
		try := movestest.PickUp(w, w.conn, c.id, c.run, time.Minute)
		w.exec(`SELECT moves.fail($1, $2, 'transient', 'cannot read https://private.example/salaries')`, try.Run, try.ID)
		w.exec(`INSERT INTO documents (connector_id, source_id, url, title, status, error, config_version)
			SELECT c.id, 'salaries ' || n, '', 'salaries', 'failed', 'cannot read salaries', c.config_version FROM connectors c, generate_series(1, 5) n`)
		path := fmt.Sprintf("/connectors/%d", c.id)
		paths := []string{"", "/status", "/why", "/documents", "/documents?status=failed", "/documents/failed", "/runs"}
		for _, p := range paths {
			require.Contains(t, fmt.Sprint(owner.get(path+p)), "salaries", p)
		}
		require.Equal(t, 200, super.do("PATCH", path, change, "If-Match", "*").status)
		for _, p := range paths {
			require.NotContains(t, fmt.Sprint(other.get(path+p)), "salaries", "%s: %s", name, p)
		}
		require.EqualValues(t, 0, other.get(path + "/documents/failed")["documents"])
		require.Len(t, super.get(path + "/documents")["documents"], 5)
		if name == "opened" {
			require.Len(t, owner.get(path + "/documents")["documents"], 5)
		}
		w.exec(`UPDATE documents d SET title = 'of now', error = 'of now', config_version = c.config_version FROM connectors c WHERE d.source_id = 'salaries 3'`)
		require.Len(t, other.get(path + "/documents?page_size=1")["documents"], 1)
		for _, who := range []struct {
			caller
			failed int
		}{{other, 1}, {super, 5}} {
			for _, c := range append(who.get("/connectors?counts=true")["connectors"].([]any), who.get(path+"?counts=true")) {
				require.EqualValues(t, who.failed, c.(map[string]any)["documents_failed"])
			}
		}
		require.Nil(t, other.get(path)["documents_failed"])
		require.EqualValues(t, 1, other.get(path + "/documents/failed")["documents"])
	}
}

// A long private past holds nobody up: a page of it is empty, and has a next.
func TestTheAuditOfALongPrivatePastIsLookedAtInBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, other := w.as(8, identity.User), w.as(7, identity.User)
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('x', 'web', 8, 'org') RETURNING id`)
	w.exec(`INSERT INTO audit (source, login, person, action, object_id, connector_id, type, owner_id, scope)
		SELECT 'sql', 'x', 'x', 'connectors.sync', '', $1, 'web', 8, 'user' FROM generate_series(1, 5500)`, id)
	w.exec(`UPDATE connectors SET name = 'y' WHERE id = $1`, id)
	read := func(c caller) (pages, entries []int) {
		for token := ""; ; {
			page := c.get(fmt.Sprintf("/audit?page_size=500&connector_id=%d&page_token=%s", id, token))
			found := page["entries"].([]any)
			pages = append(pages, len(found))
			for _, e := range found {
				entries = append(entries, int(e.(map[string]any)["id"].(float64)))
			}
			next, more := page["next_page_token"].(string)
			if !more {
				return pages, entries
			}
			token = next
		}
	}
	pages, entries := read(other)
	require.Equal(t, []int{1, 1}, pages) // the update, then the creation
	require.Len(t, entries, 2)
	_, entries = read(owner)
	require.Len(t, entries, 5502)
	require.True(t, slices.IsSortedFunc(entries, func(a, b int) int { return b - a }))
}
