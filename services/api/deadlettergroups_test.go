package api_test

import (
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/topology"
)

// groups are the reasons of dead letters, with how many have each, of as many requests as a slow machine needs.
func (c caller) groups(query string) map[string]int {
	c.Helper()
	found := map[string]int{}
	for token, more := "", true; more; {
		answer := c.get("/deadletters/groups?page_token=" + token + query)
		for _, g := range answer["groups"].([]any) {
			of := g.(map[string]any)
			found[of["reason"].(string)] += int(of["letters"].(float64))
		}
		token, more = answer["next_page_token"].(string)
	}
	return found
}

// manyLetters are letters about a document of a connector.
func (b broadcast) manyLetters(n int, connector int32, reason func(n int) string) {
	b.Helper()
	data, err := proto.Marshal(partOf(connector, "a"))
	require.NoError(b, err)
	for n := range n {
		msg := nats.NewMsg("dlq." + topology.DocumentSubject)
		msg.Data = data
		msg.Header.Set(topology.HeaderReason, reason(n))
		_, err := b.js.PublishMsgAsync(msg)
		require.NoError(b, err)
		if n%1_000 == 999 { // the client keeps a bounded number without an answer
			<-b.js.PublishAsyncComplete()
		}
	}
	<-b.js.PublishAsyncComplete()
}
