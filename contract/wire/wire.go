// Package wire turns what Postgres holds into what travels on NATS, and back.
package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/publicpb"
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

// Scope is a scope on the wire. It returns an error for anything but user, group, org and system.
func Scope(name string) (publicpb.ConnectorScope, error) {
	switch name {
	case "user":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_USER, nil
	case "group":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_GROUP, nil
	case "org":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_ORG, nil
	case "system":
		return publicpb.ConnectorScope_CONNECTOR_SCOPE_SYSTEM, nil
	}
	return 0, fmt.Errorf("scope %q: must be user, group, org or system", name)
}

// timeLayout keeps Postgres's microseconds.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// FormatTime writes a time for a header.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// JSON turns a Struct into a JSON object; nil gives nil.
func JSON(s *structpb.Struct) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	return json.Marshal(s.AsMap())
}
