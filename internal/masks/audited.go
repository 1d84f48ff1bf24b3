package masks

import (
	"encoding/json"
	"regexp"
	"strings"
)

// fingerprint stands for a secret in the audit; who may enter a URL is one with an @ behind it.
var fingerprint = regexp.MustCompile(`secret:[0-9a-f]{12}@?`)

// exact is up to where JavaScript has each whole number.
const exact = 1<<53 - 1

// Audited is what an entry of the audit says. The database has hidden the secrets that it knows; Audited hides those that only Value
// knows. A whole number that JavaScript would round is a text.
func Audited(stored []byte) json.RawMessage {
	value, err := Decode(stored)
	if err != nil {
		return json.RawMessage("null")
	}
	out, err := Encode(audited(value))
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

func audited(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = audited(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = audited(inner)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= -exact && n <= exact || strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		return v.String()
	case string:
		if others := fingerprint.ReplaceAllString(v, ""); Value(others, true) != others {
			return Value(v, true)
		}
	}
	return value
}
