//go:build !race

package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/faultproxy"
	"github.com/echomind/sync/testonly/testkit"
)

// Operation by role and scope: what is in a dead letter may be anybody's.
func TestDeadLettersAreForSuperadminsAndTheScopeOfTheirOperation(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	id := b.connector(7, "user")
	done := map[identity.Operation]int{identity.ListDeadLetters: 200, identity.GetDeadLetter: 200, identity.ReplayDeadLetter: 202, identity.DropDeadLetter: 204}
	letter := 0
	for _, role := range identity.Roles {
		for _, scope := range identity.Scopes {
			me := b.as(7, role, scope)
			for operation, want := range done {
				b.letter(topology.DocumentSubject, partOf(id, "a"))
				letter++
				path := fmt.Sprintf("/deadletters/%d", letter)
				var got reply
				switch operation {
				case identity.ListDeadLetters:
					got = me.do("GET", "/deadletters", nil)
				case identity.GetDeadLetter:
					got = me.do("GET", path, nil)
				case identity.ReplayDeadLetter:
					got = me.do("POST", path+"/replay", nil, "If-Match", "*")
				case identity.DropDeadLetter:
					got = me.do("DELETE", path, nil, "If-Match", "*")
				}
				rule := identity.RuleOf(operation)
				require.Equal(t, identity.Superadmin, rule.Role)
				if role != identity.Superadmin || scope != rule.Scope {
					me.refused(http.StatusForbidden, "forbidden", got)
					continue
				}
				require.Equal(t, want, got.status, "%s: %s", operation, got.text)
			}
		}
	}
	ids, _ := b.as(7, identity.Superadmin).letterIDs("page_size=500")
	require.Len(t, ids, letter-2, "what was refused has changed nothing")
}

func TestDeadLettersComeInPagesOfOneFilter(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	ids, pages := me.letterIDs("")
	require.Empty(t, ids)
	require.Equal(t, 1, pages)
	run := b.something(identity.Ownership{UserID: 7, Scope: "user"})
	for n := range int32(110) { // more than are looked at once
		b.letter(topology.DocumentSubject, partOf(1000+n%2, "a"))
	}
	b.letter("connector.sync.web", &internalpb.ConnectorSyncRequest{ConnectorId: 1000})
	b.letter(topology.DocumentSubject, "\xff", topology.HeaderSession, run.run.String()) // its run says whose it is
	for query, want := range map[string][2]int{
		"page_size=500": {112, 1}, "page_size=30": {112, 4}, "page_size=56": {112, 2}, "page_size=20&connector_id=1000": {56, 3}, "connector_id=1001": {55, 2},
		"subject=connector.sync.*": {1, 1}, "subject=connector.>": {1, 1}, "subject=document.process&page_size=111": {111, 1}, "subject=nothing.of.this": {0, 1},
		fmt.Sprintf("connector_id=%d", run.id): {1, 1},
	} {
		ids, pages := me.letterIDs(query)
		require.Equal(t, want, [2]int{len(ids), pages}, query)
		require.IsIncreasing(t, append([]int{0}, ids...), query)
	}
	token := "page_token=" + me.get("/deadletters?page_size=1")["next_page_token"].(string)
	me.refused(422, "invalid", me.do("GET", "/deadletters?connector_id=1000&"+token, nil))
	me.refused(422, "invalid", me.do("GET", "/deadletters?subject="+url.QueryEscape("a b"), nil))
	me.refused(422, "invalid", me.do("GET", "/deadletters?connector_id=0", nil))
}

func TestAPageOfLongTextsIsShortAndHasANextOne(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	for range 5 {
		b.letter(topology.DocumentSubject, "", topology.HeaderReason, strings.Repeat("x", 60_000))
	}
	ids, pages := b.as(1, identity.Superadmin).letterIDs("")
	require.Equal(t, []int{1, 2, 3, 4, 5}, ids)
	require.Equal(t, 3, pages)
}

func TestADeadLetterIsShownWithWhatHasBecomeOfItAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me, id := b.as(1, identity.Superadmin), b.connector(7, "user")
	b.exec(`INSERT INTO documents (connector_id, source_id, status, error, config_version) VALUES ($1, 'a', 'failed', 'password=hunter2', 1)`, id)
	config, err := structpb.NewStruct(map[string]any{"url": "https://ann:hunter2@example.org/?access_token=hunter2", "api_key": "hunter2", "keywords": []any{"zebra"}})
	require.NoError(t, err)
	b.letter("connector.sync.web", &internalpb.ConnectorSyncRequest{ConnectorId: id, Config: config}, topology.HeaderReason, "token=hunter2")
	b.letter(topology.DocumentSubject, partOf(id, "a"), topology.HeaderTries, "5", topology.HeaderDeliveries, "6", topology.HeaderSequence, "41", topology.HeaderFirstAt, "2026-03-01T00:02:03.5Z")
	b.letter("connector.sync.web", "\xff\xff"+strings.Repeat("-", 100)+"hunter2")

	first := me.get("/deadletters/1")
	require.Equal(t, map[string]any{"url": "https://ann:REDACTED@example.org/?access_token=REDACTED", "api_key": "REDACTED", "keywords": []any{"zebra"}}, first["message"].(map[string]any)["config"])
	require.Equal(t, map[string]any{"name": "x", "type": "web", "status": "ACTIVE"}, first["connector"])
	require.Nil(t, first["document"])
	second := me.get("/deadletters/2")
	require.Equal(t, "failed", second["document"].(map[string]any)["status"])
	require.Equal(t, "etag-1", second["message"].(map[string]any)["part"].(map[string]any)["version_token"])
	for field, want := range map[string]any{"tries": 5.0, "deliveries": 6.0, "original_sequence": 41.0, "number": 7.0, "first_at": "2026-03-01T00:02:03.5Z", "source_id": "a", "subject": "document.process", "reason": "it always fails"} {
		require.Equal(t, want, second[field], field)
	}
	third := me.get("/deadletters/3")
	require.Nil(t, third["message"])
	require.Contains(t, third["problem"], "not a ConnectorSyncRequest")
	require.NotContains(t, third, "head", "how it begins may be a secret")
	require.NotContains(t, fmt.Sprint(first, second, third, me.get("/deadletters")), "hunter2")
}

func TestALetterThatIsGoneIsNotFoundAndANumberThatIsNoneIsInvalid(t *testing.T) {
	t.Parallel()
	b := newBroadcast(t)
	me := b.as(1, identity.Superadmin)
	b.letter(topology.DocumentSubject, partOf(b.connector(7, "user"), "a"))
	require.Equal(t, 204, me.do("DELETE", "/deadletters/1", nil, "If-Match", "*").status)
	for sequence, want := range map[string]int{
		"1": 404, "99": 404, "9223372036854775807": 404, "9223372036854775808": 422, "0": 422, "-1": 422, "01": 422, "x": 422, "99999999999999999999999": 422,
	} {
		kind := map[int]string{404: "not-found", 422: "invalid"}[want]
		me.refused(want, kind, me.do("GET", "/deadletters/"+sequence, nil))
		me.refused(want, kind, me.do("POST", "/deadletters/"+sequence+"/replay", nil, "If-Match", "*"))
		me.refused(want, kind, me.do("DELETE", "/deadletters/"+sequence, nil, "If-Match", "*"))
	}
	require.Equal(t, int64(1), one[int64](b.world, `SELECT count(*) FROM audit WHERE action LIKE 'deadletters.%'`))
}

func TestAStreamThatDoesNotExistHoldsNoDeadLetters(t *testing.T) {
	t.Parallel()
	nobody := testkit.NATS(t).URL()
	w := newWorld(t, func(c *api.Config) { c.NATSURL = nobody })
	me := w.as(1, identity.Superadmin)
	require.Empty(t, me.get("/deadletters")["dead_letters"])
	me.refused(404, "not-found", me.do("GET", "/deadletters/1", nil))
}

func TestAPageOfDeadLettersOfABrokerThatIsFarAwayIsShortAndHasANext(t *testing.T) {
	t.Parallel()
	server := testkit.NATS(t)
	js := testkit.JetStream(t, server.URL())
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	proxy, err := faultproxy.Start(js.Conn().ConnectedAddr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	far, err := proxy.URL(server.URL())
	require.NoError(t, err)
	b := broadcast{newWorld(t, func(c *api.Config) { c.NATSURL = far }), js}
	const all = 40
	for range all {
		b.letter(topology.DocumentSubject, partOf(7, "a"))
	}
	proxy.Delay(75 * time.Millisecond) // all of them take 6 s, and a page has 3
	ids, pages := b.as(1, identity.Superadmin).letterIDs("page_size=40")
	require.Greater(t, pages, 1)
	require.Len(t, ids, all)
	require.IsIncreasing(t, ids)
}

func TestWhileNATSIsAwayDeadLettersAreNotAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	me := w.as(1, identity.Superadmin)
	for _, asked := range [][2]string{{"GET", "/deadletters"}, {"GET", "/deadletters/1"}, {"POST", "/deadletters/1/replay"}, {"DELETE", "/deadletters/1"}} {
		r := me.do(asked[0], asked[1], nil)
		me.refused(503, "unavailable", r)
		require.Equal(t, "5", r.header.Get("Retry-After"))
	}
}
