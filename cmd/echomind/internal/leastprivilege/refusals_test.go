package leastprivilege

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/streams"
)

// api is a request of JetStream's.
func api(subject string) string { return "$JS.API." + subject }

// mayPublish are the users who may publish to a subject; all others are refused.
var mayPublish = map[string]string{
	"connector.sync.web":                  "scheduler operator",
	"connector.sync.teams":                "scheduler operator",
	"connector.sync.web.more":             "",
	"document.process":                    "chunker connector operator",
	"dlq.connector.sync.web":              "chunker operator",
	"dlq.connector.sync.file":             "chunker operator",
	"dlq.connector.sync.teams":            "connector operator",
	"dlq.connector.sync.wiki":             "operator",
	"dlq.document.process":                "semantic operator",
	"dlq.connector.sync.ledger_retention": "semantic operator",
	"copies.connector.sync.x":             "",
	"events.connector.web.active":         "semantic",
	"events.run.web.failed":               "semantic",
	"events.run.web.failed.more":          "",
	"somewhere.else":                      "",

	api("INFO"):                             "setup operator",
	api("STREAM.INFO.CONNECTOR_SYNC"):       "scheduler chunker connector semantic api setup operator",
	api("STREAM.INFO.DOCUMENT_PROCESS"):     "scheduler chunker connector semantic api setup operator",
	api("STREAM.INFO.DEAD_LETTERS"):         "scheduler chunker connector semantic api setup operator",
	api("STREAM.INFO.EVENTS"):               "scheduler chunker connector semantic api setup operator",
	api("STREAM.MSG.GET.EVENTS"):            "api operator",
	api("STREAM.CREATE.EVENTS"):             "setup",
	api("STREAM.PURGE.EVENTS"):              "",
	api("STREAM.CREATE.CONNECTOR_SYNC"):     "setup",
	api("STREAM.CREATE.OTHER"):              "",
	api("STREAM.UPDATE.DOCUMENT_PROCESS"):   "setup",
	api("STREAM.DELETE.CONNECTOR_SYNC"):     "",
	api("STREAM.PURGE.CONNECTOR_SYNC"):      "scheduler",
	api("STREAM.PURGE.DOCUMENT_PROCESS"):    "semantic",
	api("STREAM.PURGE.DEAD_LETTERS"):        "operator",
	api("STREAM.MSG.GET.CONNECTOR_SYNC"):    "scheduler api operator",
	api("STREAM.MSG.GET.DOCUMENT_PROCESS"):  "semantic operator",
	api("STREAM.MSG.GET.DEAD_LETTERS"):      "api operator",
	api("STREAM.MSG.DELETE.DEAD_LETTERS"):   "api operator",
	api("STREAM.MSG.DELETE.EVENTS"):         "",
	api("STREAM.MSG.DELETE.CONNECTOR_SYNC"): "",

	api("CONSUMER.LIST.CONNECTOR_SYNC"):          "scheduler api operator",
	api("CONSUMER.LIST.DOCUMENT_PROCESS"):        "semantic api operator",
	api("CONSUMER.LIST.DEAD_LETTERS"):            "api operator",
	api("CONSUMER.LIST.EVENTS"):                  "api operator",
	api("CONSUMER.INFO.CONNECTOR_SYNC.sync_web"): "operator",

	api("CONSUMER.CREATE.CONNECTOR_SYNC.sync_web.connector.sync.web"):                           "chunker",
	api("CONSUMER.CREATE.CONNECTOR_SYNC.sync_web.connector.sync.teams"):                         "",
	api("CONSUMER.CREATE.CONNECTOR_SYNC.sync_teams.connector.sync.teams"):                       "connector",
	api("CONSUMER.CREATE.CONNECTOR_SYNC"):                                                       "",
	api("CONSUMER.CREATE.CONNECTOR_SYNC.sync_ledger_retention.connector.sync.ledger_retention"): "semantic",
	api("CONSUMER.MSG.NEXT.CONNECTOR_SYNC.sync_orphan_sweep"):                                   "semantic",
	api("CONSUMER.CREATE.CONNECTOR_SYNC.sync_ledger_retention.connector.sync.web"):              "",
	api("CONSUMER.CREATE.DOCUMENT_PROCESS.semantic.document.process"):                           "semantic",
	api("CONSUMER.MSG.NEXT.CONNECTOR_SYNC.sync_file"):                                           "chunker",
	api("CONSUMER.MSG.NEXT.CONNECTOR_SYNC.sync_onedrive"):                                       "connector",
	api("CONSUMER.MSG.NEXT.DOCUMENT_PROCESS.semantic"):                                          "semantic",
	api("CONSUMER.DELETE.CONNECTOR_SYNC.sync_web"):                                              "",
	"$JS.ACK.CONNECTOR_SYNC.sync_web.1.1.1.1.1":                                                 "chunker",
	"$JS.ACK.DOCUMENT_PROCESS.semantic.1.1.1.1.1":                                               "semantic",
}

// maySubscribe are those who may listen.
var maySubscribe = map[string]string{
	"connector.sync.web":       "",
	"connector.sync.>":         "",
	"document.process":         "",
	"dlq.>":                    "",
	">":                        "",
	"_INBOX.>":                 "",
	"_INBOX_scheduler.>":       "scheduler",
	"_INBOX_semantic.x":        "semantic",
	"_INBOX_api.>":             "api",
	"$JS.API.>":                "",
	"copies.connector.sync.>":  "operator",
	"events.>":                 "operator",
	"$JS.EVENT.ADVISORY.API.>": "",
}

func TestEveryUserMayDoWhatItsServiceNeedsAndNothingElse(t *testing.T) {
	url := serve(t)
	apply(t, url)
	for _, user := range users {
		t.Run(user, func(t *testing.T) {
			for subject, allowed := range mayPublish {
				conn, _ := as(t, url, user)
				require.NoError(t, conn.Publish(subject, []byte("{}")))
				require.Equal(t, slices.Contains(strings.Fields(allowed), user), refused(conn) == nil, "publish to %s", subject)
			}
			for subject, allowed := range maySubscribe {
				conn, _ := as(t, url, user)
				_, err := conn.Subscribe(subject, func(*nats.Msg) {})
				require.NoError(t, err)
				require.Equal(t, slices.Contains(strings.Fields(allowed), user), refused(conn) == nil, "subscribe to %s", subject)
			}
		})
	}
}

func TestNobodyConnectsWithoutAPasswordOrWithAnothersPassword(t *testing.T) {
	url := serve(t)
	_, err := nats.Connect(url)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(url, nats.UserInfo("scheduler", password("setup")))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect(url, nats.UserInfo("admin", "admin"))
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

func TestARefusalIsToldAtOnceAndNamesTheStreamAndTheFix(t *testing.T) {
	url := serve(t)
	_, js := as(t, url, "scheduler")
	err := streams.EnsureStreams(context.Background(), js)
	require.ErrorIs(t, err, streams.ErrNotAllowed)
	require.ErrorContains(t, err, "stream CONNECTOR_SYNC is missing")
	require.ErrorContains(t, err, "echomind streams apply")
	require.ErrorContains(t, err, "$JS.API.STREAM.CREATE.CONNECTOR_SYNC")
	require.NotErrorIs(t, err, context.DeadlineExceeded, "not by the request's own deadline")
}
