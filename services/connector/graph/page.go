package graph

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/echomind/sync/services/connector/internal/answer"
)

const (
	// maxReplies bounds the replies that are kept of a page of threads, in bytes. 50 threads of 1000 replies of 28 KB each are
	// possible; further replies are asked for thread by thread.
	maxReplies = 8 << 20
	// maxMessages bounds the messages of a page without their replies.
	maxMessages = 8 << 20
	// maxElement bounds an item, a reply, a field of a message, and a message without its replies. Microsoft documents 28 KB as the
	// largest message.
	maxElement = 2 << 20
	// objectBytes is about how much memory one decoded object takes, even an empty one of two bytes.
	objectBytes = 128
)

var (
	// itemLimits are for everything but messages: 1000 items have 4 MB, most of it download URLs.
	itemLimits = answer.Limits{Bytes: 16 << 20, String: 1 << 20, Values: 500_000, Element: maxElement}
	// messageLimits are for messages with their replies. They are streamed and not kept.
	messageLimits = answer.Limits{Bytes: 256 << 20, String: 1 << 20, Values: 20_000_000, Element: maxElement}
)

// limits returns the limits for decoding into v.
func limits(v any) answer.Limits {
	if _, threads := v.(*Page[Message]); threads {
		return messageLimits
	}
	return itemLimits
}

// Stream decodes a page element by element.
func (p *Page[T]) Stream(dec *answer.Decoder) error {
	*p = Page[T]{}
	room := &pageBudget{}
	return answer.Object(dec, func(name string) error {
		switch name {
		case "value":
			return answer.Elements(dec, &p.Value, func(v *T) error { return decodeElement(dec, v, room) })
		case "@odata.nextLink":
			return dec.Decode(&p.Next)
		case "@odata.deltaLink":
			return dec.Decode(&p.Delta)
		}
		return answer.Skip(dec)
	})
}

func decodeElement(dec *answer.Decoder, v any, room *pageBudget) error {
	if m, is := v.(*Message); is {
		return m.decode(dec, room)
	}
	return dec.Decode(v)
}

// pageBudget is how many bytes a page of messages has taken.
type pageBudget struct{ messages, replies int }

// decode decodes a message. Replies that do not fit the page's budget are left out; then CutReplies is set.
func (m *Message) decode(dec *answer.Decoder, room *pageBudget) error {
	var replies []Message
	cut := false
	own, err := fieldsOf(dec, func(name string) (bool, error) {
		if name != "replies" {
			return false, nil
		}
		return true, answer.Array(dec, func() error {
			if cut {
				return answer.Skip(dec)
			}
			var reply json.RawMessage
			if err := dec.Decode(&reply); err != nil {
				return err
			}
			if room.replies += weight(reply); room.replies > maxReplies {
				replies, cut = nil, true
				return nil
			}
			replies = append(replies, Message{})
			return json.Unmarshal(reply, &replies[len(replies)-1])
		})
	})
	if err != nil {
		return err
	}
	if room.messages += weight(own); room.messages > maxMessages {
		return fmt.Errorf("%w: its messages have more than %d bytes", answer.ErrTooLarge, maxMessages)
	}
	if err := json.Unmarshal(own, m); err != nil {
		return err
	}
	if m.Replies, m.CutReplies = replies, cut; cut {
		m.NextReplies = ""
	}
	return nil
}

// fieldsOf returns an object without the fields that take consumes.
func fieldsOf(dec *answer.Decoder, take func(name string) (bool, error)) ([]byte, error) {
	var own bytes.Buffer
	err := answer.Object(dec, func(name string) error {
		taken, err := take(name)
		if taken || err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		key, err := json.Marshal(name)
		own.WriteByte(',')
		own.Write(key)
		own.WriteByte(':')
		own.Write(value)
		if own.Len() > maxElement {
			return fmt.Errorf("%w: a message has more than %d bytes without its replies", answer.ErrTooLarge, maxElement)
		}
		return err
	})
	if own.Len() == 0 {
		return []byte("{}"), err
	}
	own.WriteByte('}')
	fields := own.Bytes()
	fields[0] = '{'
	return fields, err
}

// weight is about how much memory JSON takes once it is decoded.
func weight(raw []byte) int { return len(raw) + objectBytes*bytes.Count(raw, []byte("{")) }

// Weight is about how much memory a message takes, without its replies.
func (m Message) Weight() int {
	n := objectBytes*(4+len(m.Attachments)+len(m.Mentions)) + len(m.Body.Content) + len(m.Subject) + len(m.WebURL) +
		len(m.ID) + len(m.From.Name())
	for _, a := range m.Attachments {
		n += len(a.ContentURL) + len(a.Name) + len(a.ID) + len(a.ContentType)
	}
	for _, at := range m.Mentions {
		n += len(at.Text) + len(at.Mentioned.Name())
	}
	return n
}
