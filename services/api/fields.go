package api

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Object is a JSON object, kept as it was written.
type Object json.RawMessage

// MarshalJSON is part of json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	return o, nil
}

// UnmarshalJSON is part of json.Unmarshaler.
func (o *Object) UnmarshalJSON(text []byte) error {
	*o = bytes.Clone(text)
	return nil
}

// Schema is part of huma.SchemaProvider.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// Field is a value that a change may leave out, give, or take away with null.
type Field[T any] struct {
	Given bool
	Value *T
}

// UnmarshalJSON is part of json.Unmarshaler.
func (f *Field[T]) UnmarshalJSON(text []byte) error {
	f.Given = true
	if string(text) == "null" {
		return nil
	}
	f.Value = new(T)
	return json.Unmarshal(text, f.Value)
}

// MarshalJSON is part of json.Marshaler.
func (f Field[T]) MarshalJSON() ([]byte, error) { return json.Marshal(f.Value) }

// Schema is part of huma.SchemaProvider.
func (Field[T]) Schema(r huma.Registry) *huma.Schema {
	schema := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	schema.Nullable = true
	return &schema
}

// put changes a column that may be null.
func (f Field[T]) put(column **T) {
	if f.Given {
		*column = f.Value
	}
}

// set changes a column that may not be null: null is its default.
func (f Field[T]) set(column *T, otherwise T) {
	switch {
	case f.Given && f.Value == nil:
		*column = otherwise
	case f.Given:
		*column = *f.Value
	}
}
