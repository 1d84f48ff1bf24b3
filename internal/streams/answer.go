package streams

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// maxAnswerBytes is larger than any acknowledgement of the server.
const maxAnswerBytes = 8 << 10

// ServersAnswer tells whether a message is a reply of JetStream's own. The server publishes its replies to the subject that a
// request names, without checking permissions: a user who names one of our subjects puts replies into our streams. They mean
// nothing to us, are not worth a dead letter, and are counted.
func ServersAnswer(msg jetstream.Msg) bool {
	data := msg.Data()
	if len(msg.Headers()) > 0 || len(data) > maxAnswerBytes || !bytes.HasPrefix(data, []byte("{")) {
		return false
	}
	var answer struct {
		Type     string          `json:"type"`
		Stream   string          `json:"stream"`
		Sequence *uint64         `json:"seq"`
		Error    json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &answer) != nil {
		return false
	}
	return strings.HasPrefix(answer.Type, "io.nats.jetstream.api.") || answer.Stream != "" && (answer.Sequence != nil || answer.Error != nil)
}
