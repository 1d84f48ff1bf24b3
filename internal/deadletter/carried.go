package deadletter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/secret"
)

// What is shown of a payload that is no message. A trigger carries its connector's configuration, which may hold
// secrets that nothing can find and mask there: of it the beginning alone is shown.
const documentHead, otherHead = 64, 16

// Carried is what is shown of a letter's payload: a message with its secrets masked, or why it is none, and how it begins.
type Carried struct {
	Message       json.RawMessage
	Problem, Head *string
}

// Carry is what is shown of a payload.
func Carry(l Letter, content Content, payload []byte) (c Carried) {
	why := content.Problem
	if why == nil {
		if c.Message, why = messageJSON(content.Message); why == nil {
			return c
		}
	}
	most := otherHead
	if l.Subject == topology.DocumentSubject {
		most = documentHead
	}
	problem, head := why.Error(), strconv.QuoteToASCII(string(payload[:min(most, len(payload))]))
	return Carried{Problem: &problem, Head: &head}
}

// messageJSON is a message with its secrets masked, in its configuration and states as elsewhere.
func messageJSON(m proto.Message) (json.RawMessage, error) {
	written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	value, err := masks.Decode(written)
	if err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	part := map[string]any{}
	if object, ok := value.(map[string]any); ok {
		if found, ok := object["part"].(map[string]any); ok {
			part = found
		}
	}
	if request, is := m.(*internalpb.DocumentProcessRequest); is && len(request.GetPart().GetMemo()) > 0 {
		part["memo"] = memoValue(request.GetPart().GetMemo())
	}
	version, given := part["version_token"]
	masks.Value(value, true)
	if text, isText := version.(string); given && isText { // it tells versions apart, and opens nothing, but may be an address
		part["version_token"] = secret.Text(text)
	}
	return masks.Encode(value)
}

// memoValue is a memo as JSON, so that its secrets are masked too; one that is no JSON is text.
func memoValue(memo []byte) any {
	if json.Valid(memo) {
		if value, err := masks.Decode(memo); err == nil {
			return value
		}
	}
	return string(bytes.ToValidUTF8(memo, []byte("?")))
}
