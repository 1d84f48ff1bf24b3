package console

import (
	"fmt"
	"slices"

	"github.com/echomind/sync/internal/secret"
)

// secretIn is where in a configuration something stands that looks like a secret, but for fields that are sealed.
func secretIn(config []byte, sealed []string) string {
	value, err := decode(config)
	if err != nil {
		return ""
	}
	if object, isObject := value.(map[string]any); isObject {
		for name := range object {
			if slices.Contains(sealed, name) {
				delete(object, name)
			}
		}
	}
	return secretAt(value, "")
}

func secretAt(value any, path string) string {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			below := name
			if path != "" {
				below = path + "." + name
			}
			if text, isText := inner.(string); isText && text != "" && isSecret(name) {
				return clip(below, 80)
			}
			if found := secretAt(inner, below); found != "" {
				return found
			}
		}
	case []any:
		for i, inner := range v {
			if found := secretAt(inner, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case string:
		// An address with a query is none, though texts for people are shown without it.
		if secret.Users(v) != v || secret.Pairs(v) != v || secret.Text(v) != secret.URL(v) && secret.URL(v) == v {
			return clip(path, 80)
		}
	}
	return ""
}
