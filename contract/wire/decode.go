package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// UnmarshalApart decodes a message from outside as Unmarshal does, but leaves out one of its fields, a message, and returns it as
// it is encoded; nil where there is none. It returns an error where it comes more than once: nobody writes it so.
func UnmarshalApart(data []byte, m proto.Message, field protowire.Number) (apart []byte, err error) {
	if err := bounded(data, m); err != nil {
		return nil, err
	}
	rest := make([]byte, 0, len(data))
	for len(data) > 0 {
		number, kind, size := protowire.ConsumeField(data)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		if number == field && kind == protowire.BytesType {
			if apart != nil {
				return nil, fmt.Errorf("field %d comes more than once", field)
			}
			_, _, tag := protowire.ConsumeTag(data)
			value, _ := protowire.ConsumeBytes(data[tag:])
			apart = append([]byte{}, value...)
		} else {
			rest = append(rest, data[:size]...)
		}
		data = data[size:]
	}
	return apart, proto.Unmarshal(rest, m)
}

// DecodeStruct turns an encoded Struct into a JSON object, as JSON does with a decoded one. It makes no message of each value, see
// EncodeStruct. Nil gives nil.
func DecodeStruct(data []byte) ([]byte, error) {
	if data == nil {
		return nil, nil
	}
	d := decoder{text: make([]byte, 0, len(data))}
	if d.object(data, 0) {
		return d.text, nil
	}
	// It may be no Struct, or one that nobody would write like that: with a key that comes twice, or a value of two kinds.
	s := &structpb.Struct{}
	if err := proto.Unmarshal(data, s); err != nil {
		return nil, err
	}
	return JSON(s)
}

// decoder writes JSON. Each of its methods says whether its input is as EncodeStruct and every protobuf library write it.
type decoder struct{ text []byte }

func (d *decoder) object(data []byte, depth int) bool {
	if depth > MaxDepth {
		return false
	}
	d.text = append(d.text, '{')
	keys := map[string]struct{}{}
	for len(data) > 0 {
		entry, size := field(data, structFields)
		if size < 0 {
			return false
		}
		data = data[size:]
		key, size := field(entry, entryKey)
		if size < 0 {
			return false
		}
		value, last := field(entry[size:], entryValue)
		if last < 0 || size+last != len(entry) {
			return false
		}
		if len(keys) > 0 {
			d.text = append(d.text, ',')
		}
		before := len(keys)
		if keys[string(key)] = struct{}{}; len(keys) == before || !d.string(key) {
			return false
		}
		d.text = append(d.text, ':')
		if !d.value(value, depth+1) {
			return false
		}
	}
	d.text = append(d.text, '}')
	return true
}

func (d *decoder) list(data []byte, depth int) bool {
	d.text = append(d.text, '[')
	for first := true; len(data) > 0; first = false {
		value, size := field(data, listValues)
		if size < 0 {
			return false
		}
		data = data[size:]
		if !first {
			d.text = append(d.text, ',')
		}
		if !d.value(value, depth+1) {
			return false
		}
	}
	d.text = append(d.text, ']')
	return true
}

// value writes a Value, which has one field.
func (d *decoder) value(data []byte, depth int) bool {
	number, kind, size := protowire.ConsumeTag(data)
	if size < 0 || depth > MaxDepth {
		return false
	}
	data = data[size:]
	switch {
	case (number == valueNull || number == valueBool) && kind == protowire.VarintType:
		n, size := protowire.ConsumeVarint(data)
		if size != len(data) {
			return false
		}
		return d.constant(number, n)
	case number == valueNumber && kind == protowire.Fixed64Type:
		bits, size := protowire.ConsumeFixed64(data)
		return size == len(data) && d.number(math.Float64frombits(bits))
	case kind != protowire.BytesType:
		return false
	}
	content, size := protowire.ConsumeBytes(data)
	if size != len(data) {
		return false
	}
	switch number {
	case valueString:
		return d.string(content)
	case valueStruct:
		return d.object(content, depth)
	case valueList:
		return d.list(content, depth)
	}
	return false
}

func (d *decoder) constant(number protowire.Number, n uint64) bool {
	switch {
	case number == valueNull && n == 0:
		d.text = append(d.text, "null"...)
	case number == valueBool && n <= 1:
		d.text = strconv.AppendBool(d.text, n == 1)
	default:
		return false
	}
	return true
}

// number writes as encoding/json does, so that what is whole has no exponent.
func (d *decoder) number(f float64) bool {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return false
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	d.text = strconv.AppendFloat(d.text, f, format, -1, 64)
	return true
}

func (d *decoder) string(s []byte) bool {
	if !utf8.Valid(s) {
		return false
	}
	for _, c := range s {
		if c < ' ' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(string(s))
			d.text = append(d.text, quoted...)
			return err == nil
		}
	}
	d.text = append(append(append(d.text, '"'), s...), '"')
	return true
}

// field is the content of the next field, and its size. The size is -1 where the field has another number than want.
func field(data []byte, want protowire.Number) (content []byte, size int) {
	number, kind, tag := protowire.ConsumeTag(data)
	if tag < 0 || number != want || kind != protowire.BytesType {
		return nil, -1
	}
	content, size = protowire.ConsumeBytes(data[tag:])
	if size < 0 {
		return nil, -1
	}
	return content, tag + size
}
