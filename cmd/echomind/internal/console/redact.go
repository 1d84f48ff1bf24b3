package console

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/secret"
)

// mask stands in output where a secret is.
const mask = "REDACTED"

var secretParts = []string{"token", "secret", "password", "passwd", "passphrase", "credential", "apikey", "authorization",
	"cookie", "service_account", "serviceaccount"}

// secretWords are too short to be looked for within others.
var secretWords = []string{"key", "keys", "sig", "signature", "pwd", "pass", "auth", "jwt", "bearer", "pin", "otp"}

// queryWords are secrets in a query only: elsewhere they are words like others.
var queryWords = []string{"code", "session", "sid", "ticket"}

// isSecret says whether a key names something that is not to be shown.
func isSecret(key string) bool {
	lower := strings.ToLower(key)
	for _, part := range secretParts {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return slices.ContainsFunc(words(key), func(word string) bool { return slices.Contains(secretWords, word) })
}

// words splits snake_case, kebab-case and camelCase.
func words(key string) []string {
	var spaced strings.Builder
	for i, r := range key {
		if r >= 'A' && r <= 'Z' && i > 0 && (key[i-1] < 'A' || key[i-1] > 'Z') {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(r)
	}
	return strings.FieldsFunc(strings.ToLower(spaced.String()), func(r rune) bool { return r < 'a' || r > 'z' })
}

// redacted is a JSON object with its secrets masked: the values of keys that look secret, and passwords and
// tokens in URLs.
func redacted(object []byte) json.RawMessage { return withoutSecrets(object, true) }

// withoutSecrets is redacted; without numbers those are shown whatever their key: they count tokens, in what a job is given and what comes of it.
func withoutSecrets(object []byte, numbers bool) json.RawMessage {
	value, err := decode(object)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	out, err := encoded(maskValue(value, numbers))
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return out
}

func encoded(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

func decode(object []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

func maskValue(value any, numbers bool) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			_, isFlag := inner.(bool)
			_, isNumber := inner.(json.Number)
			if isSecret(key) && inner != nil && !isFlag && (numbers || !isNumber) {
				v[key] = mask
			} else {
				v[key] = maskValue(inner, numbers)
			}
		}
	case []any:
		for i, inner := range v {
			v[i] = maskValue(inner, numbers)
		}
	case string:
		if secret.IsEnvelope(v) {
			return mask
		}
		return maskURL(v)
	}
	return value
}

// maskURL hides what a URL says about who may enter, and what a connection string does; any other text stays as it is.
func maskURL(text string) string {
	text = secret.Pairs(text)
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return secret.Users(text)
	}
	changed := false
	switch password, has := u.User.Password(); {
	case u.User != nil && slices.Contains(tokenUsers, u.Scheme) && (!has || password == "" || password == "x-oauth-basic"):
		u.User, changed = url.User(mask), true // https://token@host
	case has:
		u.User, changed = url.UserPassword(u.User.Username(), mask), true
	}
	if u.Fragment != "" { // where sign-ins leave their tokens
		u.Fragment, u.RawFragment, changed = "", "", true
	}
	query := u.Query()
	for key := range query {
		if isSecret(key) || slices.ContainsFunc(words(key), func(word string) bool { return slices.Contains(queryWords, word) }) {
			query.Set(key, mask)
			changed = true
		}
	}
	if !changed {
		return text
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// tokenUsers are the schemes in whose URLs the user may be a token.
var tokenUsers = []string{"http", "https", "nats", "tls", "ws", "wss"}

// masked returns the path of a value that is a mask: a configuration that was copied from our own output.
func masked(value any, path string) string {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if found := masked(inner, path+"."+key); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := masked(inner, path+"[]"); found != "" {
				return found
			}
		}
	case string:
		if v == mask || strings.Contains(v, ":"+mask+"@") || strings.Contains(v, "//"+mask+"@") || strings.Contains(v, "="+mask) {
			return path
		}
	}
	return ""
}

// maskServer hides the password of a server's URL, or of each in a list. What is no URL is hidden altogether.
func maskServer(text string) string {
	var out []string
	for _, part := range strings.Split(text, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme == "" || u.Host == "" {
			return mask
		}
		out = append(out, maskURL(u.String()))
	}
	return strings.Join(out, ",")
}
