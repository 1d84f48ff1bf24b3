package api_test

import (
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

// letter puts a dead letter into the stream: a message, or bytes that are none. Headers are pairs of name and value.
func (b broadcast) letter(subject string, payload any, headers ...string) {
	b.Helper()
	msg := nats.NewMsg("dlq." + subject)
	switch p := payload.(type) {
	case proto.Message:
		data, err := proto.Marshal(p)
		require.NoError(b, err)
		msg.Data = data
	case string:
		msg.Data = []byte(p)
	}
	msg.Header.Set(topology.HeaderReason, "it always fails")
	for i := 0; i < len(headers); i += 2 {
		msg.Header[headers[i]] = []string{headers[i+1]}
	}
	_, err := b.js.PublishMsg(b.Context(), msg)
	require.NoError(b, err)
}

func partOf(connector int32, sourceID string) *internalpb.DocumentProcessRequest {
	return &internalpb.DocumentProcessRequest{
		ConnectorId: connector, ChunkingSession: uuid.NewString(), Number: 7,
		Body: &internalpb.DocumentProcessRequest_Part{Part: &internalpb.DocumentPart{SourceId: sourceID, VersionToken: "etag-1", FirstNo: 7, Parts: 1, Chunks: []*internalpb.Chunk{{Text: "the text"}}}},
	}
}

// letterIDs are the ids of all pages.
func (c caller) letterIDs(query string) (ids []int, pages int) {
	c.Helper()
	for token := ""; ; pages++ {
		page := c.get("/deadletters?" + query + token)
		for _, l := range page["dead_letters"].([]any) {
			ids = append(ids, int(l.(map[string]any)["id"].(float64)))
		}
		if page["next_page_token"] == nil {
			return ids, pages + 1
		}
		token = "&page_token=" + page["next_page_token"].(string)
	}
}

func (b broadcast) deadLetters() jetstream.Stream {
	b.Helper()
	stream, err := b.js.Stream(b.Context(), topology.DeadLetterStream)
	require.NoError(b, err)
	return stream
}
