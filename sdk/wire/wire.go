// Package wire turns what Postgres holds into what travels on NATS, and back.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/proto/gen/publicpb"
)

// types are the names in table connector_types that have a number of their own on the wire.
var types = map[string]publicpb.ConnectorType{
	"teams":        publicpb.ConnectorType_CONNECTOR_TYPE_TEAMS,
	"google_drive": publicpb.ConnectorType_CONNECTOR_TYPE_GOOGLE_DRIVE,
	"onedrive":     publicpb.ConnectorType_CONNECTOR_TYPE_ONEDRIVE,
	"web":          publicpb.ConnectorType_CONNECTOR_TYPE_WEB,
	"file":         publicpb.ConnectorType_CONNECTOR_TYPE_FILE,
}

// Type is a connector type on the wire; CUSTOM for a type that another team added.
func Type(name string) publicpb.ConnectorType {
	if t, known := types[name]; known {
		return t
	}
	return publicpb.ConnectorType_CONNECTOR_TYPE_CUSTOM
}

// Scope is a scope on the wire. It returns an error for anything but user, group and org.
func Scope(name string) (publicpb.ConnectorScope, error) {
	switch name {
	case "user":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_USER, nil
	case "group":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_GROUP, nil
	case "org":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_ORG, nil
	}
	return 0, fmt.Errorf("scope %q: must be user, group or org", name)
}

// Collection names the set of documents that one kind of reader may search: user_<user_id>, group_<scope_id> or
// org. It returns an error for any other scope, and for a group without an id.
func Collection(scope string, userID int32, scopeID string) (string, error) {
	switch {
	case scope == "user":
		return fmt.Sprintf("user_%d", userID), nil
	case scope == "group" && scopeID != "":
		return "group_" + scopeID, nil
	case scope == "group":
		return "", fmt.Errorf("scope_id is empty: a connector of scope group needs one")
	case scope == "org":
		return "org", nil
	}
	return "", fmt.Errorf("scope %q: must be user, group or org", scope)
}

// timeLayout keeps Postgres's microseconds.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// FormatTime writes a time for a header.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// maxExact is the largest integer that a double, and so a Struct, holds exactly (IEEE 754).
const maxExact = 1 << 53

// MaxDepth is how deep a configuration or a state may be nested. A level is up to three messages on the wire, and decoders of most
// languages refuse more than 100 by default. The database has the same limit.
const MaxDepth = 30

// Struct turns a JSON object into a protobuf Struct. Numbers that a double cannot hold exactly become strings. It returns an
// error for what is nested deeper than MaxDepth. Nil or empty input gives nil.
func Struct(object []byte) (*structpb.Struct, error) {
	if len(object) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if depth(fields) > MaxDepth {
		return nil, fmt.Errorf("make a Struct: the object is nested more than %d levels deep; keep it flat", MaxDepth)
	}
	exact, _ := exactNumbers(fields).(map[string]any)
	s, err := structpb.NewStruct(exact)
	if err != nil {
		return nil, fmt.Errorf("make a Struct: %w", err)
	}
	return s, nil
}

// depth is the deepest level of a value that holds something, as Postgres counts them: the value itself is level 0.
func depth(value any) (deepest int) {
	switch v := value.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depth(e)+1)
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, depth(e)+1)
		}
	}
	return deepest
}

func exactNumbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if i, ok := new(big.Int).SetString(v.String(), 10); ok {
			if i.CmpAbs(big.NewInt(maxExact)) > 0 {
				return v.String()
			}
			return float64(i.Int64())
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case map[string]any:
		for k, e := range v {
			v[k] = exactNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = exactNumbers(e)
		}
	}
	return value
}

// JSON turns a Struct into a JSON object; nil gives nil.
func JSON(s *structpb.Struct) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	return json.Marshal(s.AsMap())
}
