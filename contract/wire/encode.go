package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// The fields of google.protobuf.Struct, its map entries, ListValue and Value. They never change: struct.proto is a well-known type.
const (
	structFields = 1
	entryKey     = 1
	entryValue   = 2
	listValues   = 1

	valueNull   = 1
	valueNumber = 2
	valueString = 3
	valueBool   = 4
	valueStruct = 5
	valueList   = 6
)

// maxExact is the largest integer that a double, and so a Struct, holds exactly (IEEE 754).
const maxExact = 1 << 53

// MaxDepth is how deep a configuration or a state may be nested. A level is up to three messages on the wire, and decoders of most
// languages refuse more than 100 by default. The database has the same limit.
const MaxDepth = 30

// Struct turns a JSON object into a protobuf Struct, as EncodeStruct does. Nil or empty input gives nil.
func Struct(object []byte) (*structpb.Struct, error) {
	if len(object) == 0 {
		return nil, nil
	}
	data, err := EncodeStruct(object)
	if err != nil {
		return nil, err
	}
	s := &structpb.Struct{}
	if err := proto.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("make a Struct: %w", err)
	}
	return s, nil
}

// EncodeStruct turns a JSON object into an encoded protobuf Struct. It makes no message of each value: with 64 KiB of tiny ones
// that takes five times as long, and a scheduler encodes whatever its users have configured. Numbers that a double cannot hold
// exactly become strings. It returns an error for what is nested deeper than MaxDepth. Nil or empty input gives nil.
func EncodeStruct(object []byte) ([]byte, error) {
	if len(object) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	e := encoder{data: make([]byte, 0, 2*len(object))}
	if e.object(fields, 1); e.tooDeep {
		return nil, fmt.Errorf("make a Struct: the object is nested more than %d levels deep; keep it flat", MaxDepth)
	}
	return e.data, nil
}

// encoder appends.
type encoder struct {
	data    []byte
	tooDeep bool
}

// message appends a field that is a message.
func (e *encoder) message(number protowire.Number, write func()) {
	e.data = protowire.AppendTag(e.data, number, protowire.BytesType)
	begin := len(e.data)
	e.data = append(e.data, 0) // where its length goes: of most it is one byte
	write()
	size := len(e.data) - begin - 1
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		e.data = append(e.data, make([]byte, more)...)
		copy(e.data[begin+1+more:], e.data[begin+1:begin+1+size])
	}
	protowire.AppendVarint(e.data[:begin], uint64(size))
}

// object appends the fields of a Struct whose values are this deep.
func (e *encoder) object(fields map[string]any, depth int) {
	for key, value := range fields {
		e.message(structFields, func() {
			e.data = protowire.AppendTag(e.data, entryKey, protowire.BytesType)
			e.data = protowire.AppendString(e.data, key)
			e.message(entryValue, func() { e.value(value, depth) })
		})
	}
}

// value appends the one field of a Value. Postgres counts depth likewise: the object itself is level 0.
func (e *encoder) value(value any, depth int) {
	if e.tooDeep = e.tooDeep || depth > MaxDepth; e.tooDeep {
		return
	}
	switch v := value.(type) {
	case nil:
		e.data = protowire.AppendVarint(protowire.AppendTag(e.data, valueNull, protowire.VarintType), 0)
	case bool:
		e.data = protowire.AppendVarint(protowire.AppendTag(e.data, valueBool, protowire.VarintType), protowire.EncodeBool(v))
	case string:
		e.text(v)
	case json.Number:
		e.number(v)
	case map[string]any:
		e.message(valueStruct, func() { e.object(v, depth+1) })
	case []any:
		e.message(valueList, func() {
			for _, element := range v {
				e.message(listValues, func() { e.value(element, depth+1) })
			}
		})
	}
}

func (e *encoder) text(s string) {
	e.data = protowire.AppendString(protowire.AppendTag(e.data, valueString, protowire.BytesType), s)
}

func (e *encoder) number(n json.Number) {
	const surely = 15 // digits that a double holds
	f, err := n.Float64()
	if len(n) > surely {
		if i, whole := new(big.Int).SetString(n.String(), 10); whole && i.CmpAbs(big.NewInt(maxExact)) > 0 {
			e.text(n.String())
			return
		}
	}
	if err != nil {
		e.text(n.String())
		return
	}
	e.data = protowire.AppendFixed64(protowire.AppendTag(e.data, valueNumber, protowire.Fixed64Type), math.Float64bits(f))
}
