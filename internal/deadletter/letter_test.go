package deadletter

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

const (
	ofHeader  = "00000000-0000-0000-0000-00000000000a"
	ofMessage = "00000000-0000-0000-0000-00000000000b"
)

func TestAMessageSaysMoreThanItsHeadersAndBothWhatTheyCan(t *testing.T) {
	t.Parallel()
	document := func(session string, connector int32) []byte {
		data, err := proto.Marshal(&internalpb.DocumentProcessRequest{
			ConnectorId: connector, ChunkingSession: session, Number: 7,
			Body: &internalpb.DocumentProcessRequest_Deletion{Deletion: &internalpb.DocumentDeletion{SourceId: "a"}},
		})
		require.NoError(t, err)
		return data
	}
	trigger, err := proto.Marshal(&internalpb.ConnectorSyncRequest{ConnectorId: 3, ChunkingSession: ofMessage})
	require.NoError(t, err)
	for _, c := range []struct {
		name, subject string
		data          []byte
		want          Letter
		readable      bool
	}{
		{"a deletion", "dlq.document.process", document(ofMessage, 3),
			Letter{Subject: "document.process", Session: ofMessage, Number: 7, ConnectorID: 3, SourceID: "a"}, true},
		{"a message that makes no sense", "dlq.document.process", document("no uuid", -3),
			Letter{Subject: "document.process", Session: ofHeader, Number: 7, SourceID: "a"}, true},
		{"no message", "dlq.document.process", []byte{0xff},
			Letter{Subject: "document.process", Session: ofHeader, Number: 2}, false},
		{"nothing", "dlq.document.process", nil,
			Letter{Subject: "document.process", Session: ofHeader}, true},
		{"a trigger", "dlq.connector.sync.web", trigger,
			Letter{Subject: "connector.sync.web", Session: ofMessage, Number: 2, ConnectorID: 3}, true},
		{"a trigger of another's", "dlq.connector.sync.wiki", []byte("{}"),
			Letter{Subject: "connector.sync.wiki", Session: ofHeader, Number: 2}, false},
		{"another subject", "dlq.else", trigger,
			Letter{Subject: "else", Session: ofHeader, Number: 2}, false},
	} {
		at := time.Date(2026, 3, 1, 0, 0, 0, 5, time.UTC)
		header := nats.Header{}
		for name, value := range map[string]string{
			topology.HeaderSession: ofHeader, topology.HeaderNumber: "2", topology.HeaderReason: "why",
			topology.HeaderTries: "5", topology.HeaderDeliveries: "-1", topology.HeaderSequence: "x",
			topology.HeaderFirstAt: at.Format(time.RFC3339Nano),
		} {
			header.Set(name, value)
		}
		got, content := Read(&jetstream.RawStreamMsg{Subject: c.subject, Sequence: 9, Header: header, Data: c.data})
		c.want.ID, c.want.Reason, c.want.Tries, c.want.FirstAt, c.want.Size = 9, "why", 5, &at, len(c.data)
		require.Equal(t, c.want, got, c.name)
		require.Equal(t, c.readable, content.Problem == nil, c.name)
		require.Equal(t, c.readable, content.Message != nil, c.name)
	}
}

func TestALetterWithoutHeadersIsReadToo(t *testing.T) {
	t.Parallel()
	got, content := Read(&jetstream.RawStreamMsg{Subject: "dlq.document.process", Sequence: 1, Data: []byte{0xff}})
	require.Equal(t, Letter{ID: 1, Subject: "document.process", Size: 1}, got)
	require.Error(t, content.Problem)
}
