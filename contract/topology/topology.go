// Package topology declares, as data, every stream, subject, consumer and header of EchoMind Sync. Package streams makes a NATS
// server agree with it.
package topology

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Streams.
const (
	// SyncStream carries the triggers. Work-queue retention: a message in it means "not picked up yet".
	SyncStream = "CONNECTOR_SYNC"
	// DocumentStream carries the documents of open runs.
	DocumentStream = "DOCUMENT_PROCESS"
	// DeadLetterStream keeps what a service gave up on, until a person decides.
	DeadLetterStream = "DEAD_LETTERS"
	// EventStream tells other services what became of connectors and runs. Of our services the API reads it, for users who watch.
	EventStream = "EVENTS"
)

// Subjects.
const (
	// SyncSubjects matches every connector.sync.<type>.
	SyncSubjects = "connector.sync.>"
	// DocumentSubject carries DocumentProcessRequest.
	DocumentSubject = "document.process"
	// DeadLetterSubjects matches every dlq.<original subject>.
	DeadLetterSubjects = "dlq.>"
	// CopySubjects matches the copies of connector.sync.> for those who only watch.
	CopySubjects = "copies.connector.sync.>"
	// ConnectorEventSubjects matches every events.connector.<type>.<what>, RunEventSubjects every events.run.<type>.<verdict>.
	ConnectorEventSubjects = "events.connector.*.*"
	RunEventSubjects       = "events.run.*.*"
)

// SemanticConsumer is the durable consumer of DocumentSubject.
const SemanticConsumer = "semantic"

// Headers.
const (
	// HeaderDispatchedAt is the time of the dispatch by Postgres's clock, RFC 3339 with microseconds.
	HeaderDispatchedAt = "Echomind-Dispatched-At"
	// HeaderSession is the run's session.
	HeaderSession = "Echomind-Session"
	// HeaderTry is the try that sent a document message: the fence of its run.
	HeaderTry = "Echomind-Try"
	// HeaderNumber is the message's number within the try; 0 completes it.
	HeaderNumber = "Echomind-Number"
	// HeaderType is the connector's type, for the logs of who reads the message.
	HeaderType = "Echomind-Type"
	// HeaderReason says on a dead letter why it was given up.
	HeaderReason = "Echomind-Reason"
	// HeaderTries says on a dead letter how often it was begun.
	HeaderTries = "Echomind-Tries"
	// HeaderDeliveries says on a dead letter how often the broker had delivered it, waits and crashes included.
	HeaderDeliveries = "Echomind-Deliveries"
	// HeaderFirstAt says on a dead letter when the original arrived, by the broker's clock, RFC 3339.
	HeaderFirstAt = "Echomind-First-At"
	// HeaderSequence is a dead letter's sequence in its original stream.
	HeaderSequence = "Echomind-Sequence"
	// HeaderCutFrom is a dead letter's original size, where it had to be cut to make room for its headers.
	HeaderCutFrom = "Echomind-Cut-From"
)

// What bounds every document.process message.
const (
	MaxMessageBytes = 512 << 10
	// headerBytes is how large the headers of such a message are at most.
	headerBytes = 16 << 10
	// MaxMessageChunks is how many chunks of a document one message brings at most: semantic holds a vector of each.
	MaxMessageChunks = 2000
	// MaxMessageSeen is how many documents one message says at most that a listing has shown.
	MaxMessageSeen = 1000
	// MaxDocumentChunks and MaxDocumentParts are how many chunks one document has at most, and how many messages bring them.
	MaxDocumentChunks = 100_000
	MaxDocumentParts  = 10_000
)

// ErrTypeName says that a connector type's name is malformed.
var ErrTypeName = errors.New("connector type must match [a-z][a-z0-9_]* and have at most 63 characters")

var typeName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// SyncSubject is the subject of a type's triggers. It returns ErrTypeName for a malformed name.
func SyncSubject(connectorType string) (string, error) {
	if !typeName.MatchString(connectorType) {
		return "", fmt.Errorf("type %q: %w", connectorType, ErrTypeName)
	}
	return "connector.sync." + connectorType, nil
}

// Streams are the declarations of all streams. maxDocumentBytes and maxDeadLetterBytes bound what these
// two keep on disk; when one is full it refuses, so that publishers wait and nothing is evicted. maxEventBytes bounds the events: the
// oldest make room for new ones.
func Streams(maxDocumentBytes, maxDeadLetterBytes, maxEventBytes int64) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        SyncStream,
			Description: "Triggers that wait to be picked up; bounded by the number of connectors.",
			Subjects:    []string{SyncSubjects},
			Retention:   jetstream.WorkQueuePolicy,
			Storage:     jetstream.FileStorage,
			Discard:     jetstream.DiscardNew,
			// Mirrors and sources of a work queue would drain it; watchers get copies instead.
			RePublish: &jetstream.RePublish{Source: SyncSubjects, Destination: CopySubjects},
		},
		{
			Name:        DocumentStream,
			Description: "Documents of open runs.",
			Subjects:    []string{DocumentSubject},
			Retention:   jetstream.WorkQueuePolicy,
			Storage:     jetstream.FileStorage,
			Discard:     jetstream.DiscardNew,
			MaxBytes:    maxDocumentBytes,
			MaxMsgSize:  MaxMessageBytes + headerBytes,
		},
		{
			Name:        DeadLetterStream,
			Description: "Messages that a service gave up on.",
			Subjects:    []string{DeadLetterSubjects},
			Retention:   jetstream.LimitsPolicy,
			Storage:     jetstream.FileStorage,
			Discard:     jetstream.DiscardNew,
			MaxBytes:    maxDeadLetterBytes,
		},
		{
			Name:        EventStream,
			Description: "What became of connectors and runs, for other services.",
			Subjects:    []string{ConnectorEventSubjects, RunEventSubjects},
			Retention:   jetstream.LimitsPolicy,
			Storage:     jetstream.FileStorage,
			Discard:     jetstream.DiscardOld,
			MaxAge:      EventAge,
			MaxBytes:    maxEventBytes,
			Duplicates:  EventDuplicates,
		},
	}
}

// Default bounds of the large streams, in bytes.
const (
	DefaultMaxDocumentBytes   = 2 << 30
	DefaultMaxDeadLetterBytes = 256 << 20
	DefaultMaxEventBytes      = 512 << 20
)

// How long an event stays, and for how long the broker knows an event's id again. A repeat that comes later is in the stream twice: who
// reads tells it by its id.
const (
	EventAge        = 24 * time.Hour
	EventDuplicates = 2 * time.Minute
)

// ConnectorEventSubject is the subject of a type's events of one kind; RunEventSubject that of its verdicts. They return ErrTypeName for a
// malformed name of a type.
func ConnectorEventSubject(connectorType, what string) (string, error) {
	return eventSubject("connector", connectorType, what)
}

// RunEventSubject is documented at ConnectorEventSubject.
func RunEventSubject(connectorType, verdict string) (string, error) {
	return eventSubject("run", connectorType, verdict)
}

func eventSubject(of, connectorType, what string) (string, error) {
	if !typeName.MatchString(connectorType) {
		return "", fmt.Errorf("type %q: %w", connectorType, ErrTypeName)
	}
	return "events." + of + "." + connectorType + "." + what, nil
}

// SyncConsumer is the one durable consumer of a type's triggers. Redelivery never ends: Postgres decides
// what a message is worth, the broker's counts are no evidence.
func SyncConsumer(connectorType string) (jetstream.ConsumerConfig, error) {
	subject, err := SyncSubject(connectorType)
	if err != nil {
		return jetstream.ConsumerConfig{}, err
	}
	return workQueueConsumer("sync_"+connectorType, subject), nil
}

// DocumentConsumer is the durable consumer of the documents.
func DocumentConsumer() jetstream.ConsumerConfig {
	return workQueueConsumer(SemanticConsumer, DocumentSubject)
}

func workQueueConsumer(name, subject string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       name,
		FilterSubject: subject,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       AckWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    512,
	}
}

// DispatchedAt reads the dispatch time that a trigger carries.
func DispatchedAt(headers nats.Header) (time.Time, error) {
	value := headers.Get(HeaderDispatchedAt)
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("header %s %q: %w", HeaderDispatchedAt, value, err)
	}
	return at, nil
}
