// Package events writes and reads the messages of the stream EVENTS: CloudEvents 1.0 in the binary content mode of their NATS binding
// (https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/nats-protocol-binding.md). The data is a message of
// echomind.public in its JSON form. docs/contract.md says what each event means.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/contract/topology"
)

// What is told of a connector, besides its statuses in lower case.
const (
	Added   = "added"
	Deleted = "deleted"
	// Stale: what is stored of it is older than its user allows; Recovered: it is fresh again.
	Stale     = "stale"
	Recovered = "recovered"
)

// Source is the CloudEvents attribute `source` of every event.
const Source = "/echomind"

// Types of events: the prefix of the CloudEvents attribute `type`, before what happened.
const (
	connectorType = "echomind.connector."
	runType       = "echomind.run."
)

const contentType = "application/json"

// ErrNotAnEvent says that a message is none of ours, or of a kind that is not known here.
var ErrNotAnEvent = errors.New("no event that is known here")

// Event is one event. Exactly one of Connector and Run is set.
type Event struct {
	// ID is the same whenever the event is published again: who has seen it has seen the event.
	ID string
	// Time is when it happened, by Postgres's clock.
	Time      time.Time
	Connector *publicpb.ConnectorEvent
	Run       *publicpb.RunEvent
}

// what says in one word what happened.
func (e Event) what() string {
	switch {
	case e.Run != nil:
		return e.Run.Verdict
	case e.Connector.Freshness != "":
		return e.Connector.Freshness
	case e.Connector.Status == publicpb.ConnectorStatus_CONNECTOR_STATUS_UNSPECIFIED:
		return Deleted
	case e.Connector.Was == publicpb.ConnectorStatus_CONNECTOR_STATUS_UNSPECIFIED:
		return Added
	}
	return strings.ToLower(strings.TrimPrefix(e.Connector.Status.String(), "CONNECTOR_STATUS_"))
}

// Message is the event as it is published. Its Nats-Msg-Id is the event's id.
func (e Event) Message() (*nats.Msg, error) {
	var (
		subject, kind string
		connector     int32
		data          proto.Message
		err           error
		what          = e.what()
	)
	if e.Run != nil {
		subject, err = topology.RunEventSubject(e.Run.Type, what)
		kind, connector, data = runType, e.Run.ConnectorId, e.Run
	} else {
		subject, err = topology.ConnectorEventSubject(e.Connector.Type, what)
		kind, connector, data = connectorType, e.Connector.ConnectorId, e.Connector
	}
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("write event %s: %w", e.ID, err)
	}
	header := [...][2]string{
		{"ce-specversion", "1.0"}, {"ce-id", e.ID}, {"ce-source", Source}, {"ce-type", kind + what}, {"ce-subject", strconv.Itoa(int(connector))},
		{"ce-time", e.Time.UTC().Format(time.RFC3339Nano)}, {"ce-datacontenttype", contentType},
		{"Content-Type", contentType}, // some libraries read the data's type here
		{nats.MsgIdHdr, e.ID},
	}
	msg := &nats.Msg{Subject: subject, Data: text, Header: make(nats.Header, len(header))}
	for i := range header {
		msg.Header[header[i][0]] = header[i][1:] // Set would write ce-id as Ce-Id
	}
	return msg, nil
}

// envelope is an event in the JSON format of CloudEvents 1.0.
type envelope struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

// JSON is the event in the JSON format of CloudEvents 1.0, on one line
// (https://github.com/cloudevents/spec/blob/main/cloudevents/formats/json-format.md).
func (e Event) JSON() ([]byte, error) {
	msg, err := e.Message()
	if err != nil {
		return nil, err
	}
	of := func(name string) string { return first(msg.Header, name) }
	text, err := json.Marshal(envelope{of("ce-specversion"), of("ce-id"), of("ce-source"), of("ce-type"), of("ce-subject"), of("ce-time"), of("ce-datacontenttype"), msg.Data})
	if err != nil {
		return nil, fmt.Errorf("write event %s: %w", e.ID, err)
	}
	return text, nil
}

// ConnectorID is the connector that it is about; 0 = one whose week the ledger has dropped.
func (e Event) ConnectorID() int32 {
	if e.Run != nil {
		return e.Run.ConnectorId
	}
	return e.Connector.ConnectorId
}

// IsDeletion says that its connector is there no more.
func (e Event) IsDeletion() bool { return e.Connector != nil && e.what() == Deleted }

// IsAddition says that its connector is there since then.
func (e Event) IsAddition() bool { return e.Connector != nil && e.what() == Added }

// IsWait says that its connector begins to wait for a worker, or does so no more.
func (e Event) IsWait() bool {
	const waits = publicpb.ConnectorStatus_CONNECTOR_STATUS_PENDING
	return (e.Connector.GetStatus() == waits) != (e.Connector.GetWas() == waits)
}

// Read reads a message of the stream. It returns ErrNotAnEvent for a message without the headers of an event, or of a kind that a later
// version has added: skip it. Fields that are not known are ignored.
func Read(header nats.Header, data []byte) (Event, error) {
	e := Event{ID: first(header, "ce-id")}
	kind := first(header, "ce-type")
	var into proto.Message
	switch {
	case e.ID == "" || first(header, "ce-specversion") != "1.0":
		return Event{}, ErrNotAnEvent
	case strings.HasPrefix(kind, connectorType):
		e.Connector = &publicpb.ConnectorEvent{}
		into = e.Connector
	case strings.HasPrefix(kind, runType):
		e.Run = &publicpb.RunEvent{}
		into = e.Run
	default:
		return Event{}, fmt.Errorf("type %q: %w", kind, ErrNotAnEvent)
	}
	var err error
	if e.Time, err = time.Parse(time.RFC3339Nano, first(header, "ce-time")); err != nil {
		return Event{}, fmt.Errorf("event %s: header ce-time: %w", e.ID, err)
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, into); err != nil {
		return Event{}, fmt.Errorf("event %s: %w", e.ID, err)
	}
	return e, nil
}

// first is a header's value, whatever the case of its name.
func first(header nats.Header, name string) string {
	for key, values := range header {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}
