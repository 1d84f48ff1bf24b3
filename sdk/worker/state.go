package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/wire"
)

// MaxStateBytes bounds the state of a connector, as Postgres writes it out: one space after each colon and comma,
// numbers without an exponent.
const MaxStateBytes = 64 << 10

// State decodes the state that the last completed sync left, or the last checkpoint of a run that came after it and did
// not complete. An empty state leaves v as it is. Integers above 2^53 come back as strings: a field for them must be a
// string, or tagged `json:",string"`.
func (r *Run) State(v any) error {
	return decodeStruct("state", r.request.GetState(), v)
}

// SetState sets what State returns at the next sync; v must be a JSON object. It is committed together with the run's completion,
// after every document is stored; a run that does not complete leaves the old state, or that of its last checkpoint.
func (r *Run) SetState(v any) error {
	state, err := handlersState(v)
	if err != nil {
		return err
	}
	if err := checkObject("state", state, MaxStateBytes); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newState = state
	return nil
}

// handlersState encodes a handler's state as it is sent.
func handlersState(v any) (*structpb.Struct, error) { return object("state", v) }

// object encodes what a handler gives as it is sent and stored.
func object(what string, v any) (*structpb.Struct, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the %s: %w", what, err)
	}
	encoded, err := wire.Struct(data)
	if err != nil {
		return nil, fmt.Errorf("%s must be a JSON object: %w", what, err)
	}
	return encoded, nil
}

// checkObject says why Postgres could not store an object, or that it is too long.
func checkObject(what string, o *structpb.Struct, most int) error {
	size, err := sizeOf(structpb.NewStructValue(o))
	if err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	if size > most {
		return fmt.Errorf("%s has %d bytes, more than %d", what, size, most)
	}
	return nil
}

// sizeOf is the length of a value as Postgres writes it out, or a little more.
func sizeOf(value *structpb.Value) (int, error) {
	switch v := value.GetKind().(type) {
	case *structpb.Value_StringValue:
		return textSize(v.StringValue)
	case *structpb.Value_NumberValue:
		return len(strconv.FormatFloat(v.NumberValue, 'f', -1, 64)), nil
	case *structpb.Value_ListValue:
		size := len("[]")
		for _, e := range v.ListValue.GetValues() {
			n, err := sizeOf(e)
			if err != nil {
				return 0, err
			}
			size += n + len(", ")
		}
		return size, nil
	case *structpb.Value_StructValue:
		size := len("{}")
		for name, e := range v.StructValue.GetFields() {
			key, err := textSize(name)
			if err != nil {
				return 0, err
			}
			n, err := sizeOf(e)
			if err != nil {
				return 0, err
			}
			size += key + len(": ") + n + len(", ")
		}
		return size, nil
	}
	return len("false"), nil
}

func textSize(text string) (int, error) {
	size := len(`""`) + len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0:
			return 0, errors.New("holds a NUL character, which Postgres cannot store")
		case strings.IndexByte("\"\\\b\f\n\r\t", c) >= 0:
			size++
		case c < ' ':
			size += len(`\u0000`) - 1
		}
	}
	return size, nil
}
