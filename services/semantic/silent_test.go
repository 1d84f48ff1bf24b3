package semantic

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// silentMessage is a message of nobody's stream, for what is called without a broker.
type silentMessage struct{ jetstream.Msg }

func (silentMessage) Headers() nats.Header                      { return nil }
func (silentMessage) Metadata() (*jetstream.MsgMetadata, error) { return nil, errors.New("no stream") }
