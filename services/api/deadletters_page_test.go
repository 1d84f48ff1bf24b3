//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/testonly/testkit"
)

func TestDeadLettersAreLookedAtReplayedAndRemovedOnThePage(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id := b.connector(7, "user")
	b.exec(`UPDATE connectors SET name = $1 WHERE id = $2`, hostile, id)
	b.letter(topology.DocumentSubject, partOf(id, hostile), topology.HeaderReason, hostile)
	b.letter("connector.sync.web", &internalpb.ConnectorSyncRequest{ConnectorId: 4000})
	b.letter("somebody.elses", "\xff"+hostile)
	super := b.as(1, identity.Superadmin).signedIn()
	require.Contains(t, super.get("/problems").text, `href="/deadletters"`)
	for _, path := range []string{"/deadletters", "/deadletters?subject=" + url.QueryEscape(hostile), "/deadletters?connector_id=x", "/deadletters/1", "/deadletters/2", "/deadletters/3", "/deadletters/4", "/deadletters/..", "/deadletters/-1"} {
		page := super.get(path)
		require.Less(t, page.status, 500, page.text)
		require.NotContains(t, page.text, "<script>alert", path)
		require.NotContains(t, page.text, "<img", path)
		b.harmless(page)
	}
	list := super.get("/deadletters")
	require.Contains(t, list.text, "&lt;script&gt;alert(1)")
	require.Contains(t, list.text, "number 4000, deleted")
	require.Contains(t, list.text, "it says none")
	require.Contains(t, list.text, `action="/deadletters/1/replay"`)
	require.NotContains(t, list.text, `action="/deadletters/2/replay"`, "its source is deleted")
	require.Contains(t, super.get("/deadletters/1").text, "the text", "what it carries")
	filtered := super.get(fmt.Sprintf("/deadletters?connector_id=%d", id)).text
	require.Contains(t, filtered, "/deadletters/1")
	require.NotContains(t, filtered, "/deadletters/3")

	done := super.do("POST", "/deadletters/1/replay", url.Values{"version": b.shows(super, 1), "back": {"/deadletters?connector_id=4000"}})
	require.Equal(t, http.StatusOK, done.status, done.text)
	require.Contains(t, done.text, "It is fetched again")
	require.Equal(t, "4000", done.at.Query().Get("connector_id"), "the page that it was asked on")
	require.NotZero(t, b.asked(id))
	done = super.do("POST", "/deadletters/3/drop", url.Values{"version": b.shows(super, 3)})
	require.Contains(t, done.text, "The letter is removed")
	ids, _ := b.as(1, identity.Superadmin).letterIDs("")
	require.Equal(t, []int{2}, ids)
	refused := super.do("POST", "/deadletters/2/replay", url.Values{"version": b.shows(super, 2)})
	require.Equal(t, http.StatusConflict, refused.status)
	require.Contains(t, refused.text, "was deleted")
	require.Equal(t, http.StatusNotFound, super.do("POST", "/deadletters/1/drop", url.Values{}).status)
}

// shows is the version of a letter in the form of its page.
func (b broadcast) shows(by *browser, letter int) []string {
	b.Helper()
	found := regexp.MustCompile(`name="version" value="([0-9]+)"`).FindStringSubmatch(by.get(fmt.Sprintf("/deadletters/%d", letter)).text)
	require.Len(b, found, 2)
	return found[1:]
}

func TestAChangeOfADeadLetterIsOfTheOneThatWasShown(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	mine, others := b.connector(7, "user"), b.connector(8, "user")
	me := b.as(1, identity.Superadmin)
	super := me.signedIn()
	b.letter(topology.DocumentSubject, partOf(mine, "a"))
	shown, listed := me.do("GET", "/deadletters/1", nil), me.get("/deadletters")["dead_letters"].([]any)[0].(map[string]any)
	require.Equal(t, fmt.Sprintf("%q", listed["version"]), shown.header.Get("ETag"))
	form := b.shows(super, 1)
	require.NoError(t, b.js.DeleteStream(t.Context(), topology.DeadLetterStream))
	require.NoError(t, streams.EnsureStreams(t.Context(), b.js))
	b.letter(topology.DocumentSubject, partOf(others, "another that has the number now"))
	for _, change := range [][2]string{{"POST", "/deadletters/1/replay"}, {"DELETE", "/deadletters/1"}} {
		me.refused(http.StatusPreconditionFailed, "precondition-failed", me.do(change[0], change[1], nil, "If-Match", shown.header.Get("ETag")))
		me.refused(http.StatusPreconditionRequired, "precondition-required", me.do(change[0], change[1], nil))
	}
	for _, action := range []string{"replay", "drop"} {
		require.Equal(t, http.StatusPreconditionFailed, super.do("POST", "/deadletters/1/"+action, url.Values{"version": form}).status)
		require.Equal(t, http.StatusPreconditionFailed, super.do("POST", "/deadletters/1/"+action, url.Values{}).status)
	}
	require.Zero(t, b.asked(others))
	require.Equal(t, 204, me.do("DELETE", "/deadletters/1", nil, "If-Match", me.do("GET", "/deadletters/1", nil).header.Get("ETag")).status)
}

func TestWhoMayNotSeeDeadLettersIsShownNone(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	b.letter(topology.DocumentSubject, partOf(b.connector(7, "user"), "a"))
	for _, role := range []identity.Role{identity.User, identity.Admin} {
		me := b.as(7, role).signedIn()
		require.NotContains(t, me.get("/problems").text, "/deadletters")
		for _, path := range []string{"/deadletters", "/deadletters/1"} {
			require.Equal(t, http.StatusForbidden, me.get(path).status)
		}
		for _, action := range []string{"replay", "drop"} {
			require.Equal(t, http.StatusForbidden, me.do("POST", "/deadletters/1/"+action, url.Values{}).status)
		}
	}
	looks := b.as(1, identity.Superadmin, identity.Read).signedIn().get("/deadletters").text
	require.Contains(t, looks, "/deadletters/1")
	require.NotContains(t, looks, "/replay")
	require.NotContains(t, looks, "/drop")
}

func TestWhileTheBrokerIsAwayThePageOfDeadLettersSaysSo(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	b := newBroadcastAt(t, server.URL())
	super := b.as(1, identity.Superadmin).signedIn()
	require.Equal(t, http.StatusOK, super.get("/deadletters").status)
	require.NoError(t, server.Stop(t.Context()))
	page := super.get("/deadletters")
	require.Equal(t, http.StatusServiceUnavailable, page.status)
	require.NotEmpty(t, page.header.Get("Retry-After"))
	require.Contains(t, page.text, "does not answer")
}

func TestABadgeIsMadeAndEndedOnThePageOfItsSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(7, identity.User).signedIn()
	id := one[int32](w, `INSERT INTO connectors (name, type, user_id) VALUES ('x', 'web', 7) RETURNING id`)
	org := one[int32](w, `INSERT INTO connectors (name, type, user_id, scope) VALUES ('y', 'web', 8, 'org') RETURNING id`)
	source := fmt.Sprintf("/sources/%d", id)
	key := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(me.get(source).text)
	require.Len(t, key, 2)
	made := me.do("POST", source+"/badge", url.Values{"once": {key[1]}})
	require.Equal(t, http.StatusOK, made.status, made.text)
	w.harmless(made)
	link := regexp.MustCompile(`src="(/badge/[^"]+\.svg)"`).FindStringSubmatch(made.text)
	require.Len(t, link, 2)
	status, _, _ := w.badge(link[1])
	require.Equal(t, http.StatusOK, status)
	again := me.do("POST", source+"/badge", url.Values{"once": {key[1]}})
	require.Equal(t, http.StatusOK, again.status, again.text)
	require.NotContains(t, again.text, "/badge/")
	require.Contains(t, again.text, "shown then")
	ended := me.do("POST", source+"/badge/revoke", url.Values{"back": {source}})
	require.Contains(t, ended.text, "The link of the badge has ended")
	require.Zero(t, one[int](w, `SELECT count(*) FROM badges`))
	others := fmt.Sprintf("/sources/%d", org)
	require.NotContains(t, me.get(others).text, "/badge")
	require.Equal(t, http.StatusForbidden, me.do("POST", others+"/badge", url.Values{}).status)
	require.Equal(t, http.StatusNotFound, me.do("POST", "/sources/x/badge", url.Values{}).status)
}
