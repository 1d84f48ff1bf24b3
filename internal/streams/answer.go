package streams

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// maxAnswerBytes is more than an acknowledgement of the server's has.
const maxAnswerBytes = 8 << 10

// ServersAnswer tells whether a message is an answer of JetStream's own. The server publishes its answers wherever a
// request asked for them, and asks nobody's permission: a user who names a subject of ours as the reply puts them into
// our streams. They say nothing to us, are not worth a dead letter, and are counted.
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
