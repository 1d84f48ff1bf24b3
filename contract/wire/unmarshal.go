package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// MaxFields is how many fields a message has at most, those of the messages within it among them. A configuration, state and
	// listing of 64 KiB of JSON each have fewer.
	MaxFields = 200_000
	// fieldBytes is about how much memory a field takes beside what it holds: one of two bytes on the wire may be an empty message.
	fieldBytes = 100
)

// Unmarshal decodes a message from outside, as proto.Unmarshal does. It returns an error where it has more than MaxFields.
func Unmarshal(data []byte, m proto.Message) error {
	if err := bounded(data, m); err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}

func bounded(data []byte, m proto.Message) error {
	if n := fields(data, m.ProtoReflect().Descriptor(), 0); n > MaxFields {
		return fmt.Errorf("it has more than %d fields", MaxFields)
	}
	return nil
}

// Weight is about how many bytes of memory a message takes that Unmarshal decodes, and holds as it came.
func Weight(data []byte, m proto.Message) int {
	return 2*len(data) + fieldBytes*min(fields(data, m.ProtoReflect().Descriptor(), 0), MaxFields)
}

// fields counts the fields in an encoded message, up to a few more than MaxFields. What is no message ends the count: to decode it
// fails there as well.
func fields(data []byte, of protoreflect.MessageDescriptor, depth int) (n int) {
	for len(data) > 0 && n <= MaxFields && depth < protowire.DefaultRecursionLimit {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return n
		}
		n++
		data = data[size:]
		if size = protowire.ConsumeFieldValue(number, kind, data); size < 0 {
			return n
		}
		if field := of.Fields().ByNumber(number); kind == protowire.BytesType && field != nil && field.Message() != nil {
			value, _ := protowire.ConsumeBytes(data)
			n += fields(value, field.Message(), depth+1)
		}
		data = data[size:]
	}
	return n
}
