// Package deadletter reads what a service gave up on, and has it fetched again.
//
// A dead letter is never published again: by then its session is over, and what it carries may be older than what is
// stored. Replay makes its connector due, and its document to be fetched, through the claim that every sync begins
// with.
package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/contract/wire"
)

const (
	subjectPrefix = "dlq."
	syncPrefix    = "connector.sync."
)

// Letter is what a dead letter says of itself. What it does not say is zero.
type Letter struct {
	// ID is its sequence in the stream of dead letters.
	ID uint64
	// Subject is the one that the original was published to.
	Subject string
	// Reason is why it was given up.
	Reason string
	// Tries is how often a service began it, Deliveries how often the broker handed it out, Sequence where it was in
	// its stream.
	Tries, Deliveries int
	Sequence          uint64
	// Session and Number are the run's and the message's within it; 0 is a trigger or sync completed.
	Session string
	Number  int64
	// ConnectorID is whose it is, SourceID the document that it is about.
	ConnectorID int32
	SourceID    string
	// HasParameters: it is a trigger, and its run was asked for with parameters.
	HasParameters bool
	// FirstAt is when the original arrived, LastAt when it was given up, both by the broker's clock.
	FirstAt *time.Time
	LastAt  time.Time
	// Size is the payload's, in bytes; CutFrom what it was before it was cut to make room for the headers.
	Size, CutFrom int
}

// Content is what a dead letter carries: a message, or why it is none.
type Content struct {
	Message proto.Message
	Problem error
}

// Read makes a letter of what the stream holds. Whatever the payload is, the headers are read; a message says more.
func Read(raw *jetstream.RawStreamMsg) (Letter, Content) {
	header := raw.Header
	l := Letter{
		ID: raw.Sequence, Subject: strings.TrimPrefix(raw.Subject, subjectPrefix), Size: len(raw.Data), LastAt: raw.Time,
		Reason: header.Get(topology.HeaderReason), Session: header.Get(topology.HeaderSession),
		Tries:      number[int](header.Get(topology.HeaderTries)),
		Deliveries: number[int](header.Get(topology.HeaderDeliveries)),
		Sequence:   number[uint64](header.Get(topology.HeaderSequence)),
		Number:     number[int64](header.Get(topology.HeaderNumber)),
		CutFrom:    number[int](header.Get(topology.HeaderCutFrom)),
	}
	if at, err := time.Parse(time.RFC3339Nano, header.Get(topology.HeaderFirstAt)); err == nil && isYear(at.UTC().Year()) {
		l.FirstAt = &at
	}
	switch {
	case strings.HasPrefix(l.Subject, syncPrefix):
		m := &internalpb.ConnectorSyncRequest{}
		if err := wire.Unmarshal(raw.Data, m); err != nil {
			return l, Content{Problem: fmt.Errorf("not a ConnectorSyncRequest: %w", err)}
		}
		l.says(m.ConnectorId, m.ChunkingSession)
		return l, Content{Message: m}
	case l.Subject == topology.DocumentSubject:
		m := &internalpb.DocumentProcessRequest{}
		if err := wire.Unmarshal(raw.Data, m); err != nil {
			return l, Content{Problem: fmt.Errorf("not a DocumentProcessRequest: %w", err)}
		}
		l.says(m.ConnectorId, m.ChunkingSession)
		l.Number = m.Number
		switch body := m.Body.(type) {
		case *internalpb.DocumentProcessRequest_Part:
			l.SourceID = body.Part.GetSourceId()
		case *internalpb.DocumentProcessRequest_Deletion:
			l.SourceID = body.Deletion.GetSourceId()
		}
		return l, Content{Message: m}
	}
	return l, Content{Problem: fmt.Errorf("nothing is known of what %s carries", l.Subject)}
}

// isYear says whether JSON has such years.
func isYear(year int) bool { return year >= 0 && year <= 9999 }

// says takes over what the message itself says, where it makes sense.
func (l *Letter) says(connectorID int32, session string) {
	if connectorID > 0 {
		l.ConnectorID = connectorID
	}
	if uuid.Validate(session) == nil {
		l.Session = session
	}
}

func number[T int | int64 | uint64](text string) T {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return T(n)
}
