//go:build !race

package api_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
)

func TestDeadLettersAreReplayedAndRemovedByReasonOnThePage(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id := b.connector(7, "user")
	b.exec(`UPDATE connectors SET name = $1 WHERE id = $2`, hostile, id)
	for n := range 2 {
		b.letter(topology.DocumentSubject, partOf(id, fmt.Sprint("a", n)), topology.HeaderReason, fmt.Sprintf("https://a.example/%d: %s", n, hostile))
	}
	b.letter(topology.DocumentSubject, partOf(4000, "gone"), topology.HeaderReason, "")
	super := b.as(1, identity.Superadmin).signedIn()
	require.Contains(t, super.get("/problems").text, `href="/deadletters/reasons"`)
	page := super.get("/deadletters/reasons")
	require.Equal(t, http.StatusOK, page.status, page.text)
	b.harmless(page)
	require.NotContains(t, page.text, "<img")
	require.Contains(t, page.text, "no reason was given")
	require.Contains(t, page.text, "number 4000, deleted")
	reasons := regexp.MustCompile(`name="reason" value="([^"]*…[^"]*)"`).FindStringSubmatch(page.text)
	require.Len(t, reasons, 2)
	reason := html.UnescapeString(reasons[1])
	list := super.get("/deadletters?reason=" + url.QueryEscape(reason))
	require.Contains(t, list.text, `"/deadletters/1"`)
	require.NotContains(t, list.text, `"/deadletters/3"`)

	done := super.do("POST", "/deadletters/replay", url.Values{"reason": {reason}, "back": {"/deadletters/reasons?zone=UTC"}})
	require.Equal(t, http.StatusOK, done.status, done.text)
	b.harmless(done)
	require.Contains(t, done.text, "What 2 letters are about is fetched again")
	require.Contains(t, done.text, `href="/deadletters/reasons?zone=UTC"`)
	require.NotZero(t, b.asked(id))
	done = super.do("POST", "/deadletters/replay", url.Values{"reason": {""}})
	require.Contains(t, done.text, "was deleted")
	done = super.do("POST", "/deadletters/drop", url.Values{"reason": {""}})
	require.Contains(t, done.text, "1 letter is removed")
	require.Contains(t, super.get("/deadletters/reasons").text, "There is no dead letter")
	require.Equal(t, int64(2), one[int64](b.world, `SELECT count(*) FROM audit WHERE action = 'deadletters.replay'`))
}

func TestAFormGoesOnWithDeadLettersThatAreMoreThanOneRequestDoes(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id := b.connector(7, "user")
	data, err := proto.Marshal(partOf(id, "a"))
	require.NoError(t, err)
	for range 2_300 {
		msg := nats.NewMsg("dlq." + topology.DocumentSubject)
		msg.Data = data
		msg.Header.Set(topology.HeaderReason, "x")
		_, err := b.js.PublishMsgAsync(msg)
		require.NoError(t, err)
	}
	<-b.js.PublishAsyncComplete()
	super := b.as(1, identity.Superadmin).signedIn()
	form := url.Values{"reason": {"x"}}
	for range 100 {
		page := super.do("POST", "/deadletters/drop", form)
		require.Equal(t, http.StatusOK, page.status, page.text)
		if !strings.Contains(page.text, "Go on") {
			require.Contains(t, page.text, "2300 letters are removed")
			require.Zero(t, b.deadLetters().CachedInfo().State.Msgs)
			return
		}
		if !form.Has("place") { // the others may go on in the background, once
			rest := url.Values{"action": {"drop"}, "reason": {"x"}, "once": regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(page.text)[1:]}
			for range 2 {
				began := super.do("POST", "/deadletters/operations", rest)
				require.Equal(t, http.StatusOK, began.status, began.text)
				require.Contains(t, began.text, "Remove: dead letters given up because of “x”")
			}
			require.Equal(t, 1, one[int](b.world, `SELECT count(*) FROM operations`))
		}
		for _, name := range []string{"place", "sofar"} {
			found := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(page.text)
			require.Len(t, found, 2)
			form.Set(name, found[1])
		}
	}
	t.Fatal("it never ends")
}

func TestWhatRunsIsShownToSuperadmins(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	b.connector(7, "user")
	super := b.as(1, identity.Superadmin).signedIn()
	require.Contains(t, super.get("/problems").text, `href="/system"`)
	page := super.get("/system")
	require.Equal(t, http.StatusOK, page.status, page.text)
	b.harmless(page)
	for _, says := range []string{"echomind-api", "No scheduler is connected", topology.SyncStream, topology.DeadLetterStream, `href="/?status=`} {
		require.Contains(t, page.text, says)
	}
	for _, role := range []identity.Role{identity.User, identity.Admin} {
		me := b.as(7, role).signedIn()
		problems := me.get("/problems").text
		require.Contains(t, problems, `href="/?late=true"`)
		for _, path := range []string{"/system", "/deadletters/reasons"} {
			require.NotContains(t, problems, path)
			require.Equal(t, http.StatusForbidden, me.get(path).status)
		}
		for _, path := range []string{"/deadletters/replay", "/deadletters/drop"} {
			require.Equal(t, http.StatusForbidden, me.do("POST", path, url.Values{"reason": {"x"}}).status)
		}
	}
	looks := b.as(1, identity.Superadmin, identity.Read).signedIn()
	b.letter(topology.DocumentSubject, partOf(1, "a"))
	require.NotContains(t, looks.get("/deadletters/reasons").text, `method="post" action="/deadletters`)
}

func TestWithoutNATSTheSystemIsShownWithoutStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.as(1, identity.Superadmin).signedIn().get("/system")
	require.Equal(t, http.StatusOK, page.status, page.text)
	require.Contains(t, page.text, "nats: it does not answer")
	require.Contains(t, page.text, "This could not be asked.")
}

func TestTheSystemSaysNothingOfWhatCouldNotBeAsked(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	b.connector(7, "user")
	b.exec(`REVOKE EXECUTE ON FUNCTION api.services(), api.count_connectors(), moves.events_waiting() FROM echomind_api`)
	b.exec(`REVOKE SELECT ON api.system_jobs FROM echomind_api`)
	require.Equal(t, []any{"services", "connectors", "system_jobs", "events"}, b.as(1, identity.Superadmin).get("/status")["not_asked"])
	page := b.as(1, identity.Superadmin).signedIn().get("/system")
	require.Equal(t, http.StatusOK, page.status, page.text)
	for _, says := range []string{"No scheduler", "No service", "There are no", "No event waits"} {
		require.NotContains(t, page.text, says)
	}
	require.Contains(t, page.text, "Whether a scheduler is connected is not known")
}

func TestSourcesOfFailedRunsAreSyncedByReasonOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	add := func(name string, user int32, scope string) int32 {
		return one[int32](w, `INSERT INTO connectors (name, type, user_id, scope) VALUES ($1, 'web', $2, $3) RETURNING id`, name, user, scope)
	}
	first, second, others, off := add("first", 7, "user"), add("second", 7, "user"), add("others", 8, "org"), add("off", 7, "user")
	movestest.Force(w, w.conn, `INSERT INTO runs (id, connector_id, type, trigger, due_at, started_at, completed_at, status, reason, error_message, config_version)
		SELECT gen_random_uuid(), id, 'web', 'manual', clock_timestamp(), clock_timestamp(), clock_timestamp(), 'failed', 'transient', 'https://x.example/' || id || ' answered 503', config_version FROM connectors`)
	w.exec(`SELECT moves.disable($1, 'disabled by user 7')`, off)
	triggered := func() []int32 {
		return one[[]int32](w, `SELECT array_agg(id ORDER BY id) FROM connectors WHERE trigger_requested_at IS NOT NULL`)
	}
	reader := w.as(7, identity.User, identity.Read).signedIn()
	require.NotContains(t, reader.get("/problems").text, "/problems/sync")
	form := url.Values{"source": {fmt.Sprint(first), fmt.Sprint(second), fmt.Sprint(others), fmt.Sprint(off)}, "back": {"/problems?zone=UTC"}}
	require.Equal(t, http.StatusForbidden, reader.do("POST", "/problems/sync", form).status)
	require.Empty(t, triggered())

	me := w.as(7, identity.User).signedIn()
	page := me.get("/problems?zone=UTC")
	w.harmless(page)
	for _, id := range form["source"] {
		require.Contains(t, page.text, `name="source" value="`+id+`"`)
	}
	done := me.do("POST", "/problems/sync", form)
	require.Equal(t, http.StatusOK, done.status, done.text)
	require.Contains(t, done.text, "A sync was asked for of some. The others are not yours to sync, are disabled, are gone, or could not be asked just now: try those again.")
	require.Equal(t, []int32{first, second}, triggered())
	done = me.do("POST", "/problems/sync", url.Values{"source": {fmt.Sprint(first), fmt.Sprint(second)}})
	require.Contains(t, done.text, "A sync was asked for of each of them.")
	require.Equal(t, int64(4), one[int64](w, `SELECT count(*) FROM audit WHERE action = 'connectors.sync' AND source = 'api'`))
	require.Equal(t, http.StatusForbidden, me.do("POST", "/problems/sync", url.Values{"source": {fmt.Sprint(others)}}).status)
	for _, none := range []url.Values{{}, {"source": {"x"}}, {"source": make([]string, 501)}} {
		require.Equal(t, http.StatusUnprocessableEntity, me.do("POST", "/problems/sync", none).status)
	}
}

// Somebody holds the rows of some for longer than a request has.
func TestWhatWasSyncedBeforeTheRestCouldNotBeIsSaidOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *api.Config) { c.RequestSeconds = 2 })
	ids := one[[]int32](w, `WITH added AS (INSERT INTO connectors (name, type, user_id) VALUES ('free', 'web', 7), ('held', 'web', 7) RETURNING id) SELECT array_agg(id ORDER BY id) FROM added`)
	me := w.as(7, identity.User).signedIn()
	tx, err := w.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM connectors WHERE id = $1 FOR UPDATE`, ids[1])
	require.NoError(t, err)
	form := url.Values{"source": {fmt.Sprint(ids[0]), fmt.Sprint(ids[1])}}
	said := me.do("POST", "/problems/sync", form)
	for clicks := 1; said.status != http.StatusOK && clicks < 20; clicks++ { // the held one was asked first
		require.Equal(t, http.StatusServiceUnavailable, said.status, said.text)
		said = me.do("POST", "/problems/sync", form)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, http.StatusOK, said.status, said.text)
	require.Contains(t, said.text, "could not be asked just now: try those again")
	require.Equal(t, ids[:1], one[[]int32](w, `SELECT array_agg(id) FROM connectors WHERE trigger_requested_at IS NOT NULL`))
}
