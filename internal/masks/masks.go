// Package masks hides what people and programs are not to be shown of configurations: secrets, by their names or their places.
package masks

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/secret"
)

// Mask stands in output where a secret is.
const Mask = "REDACTED"

// moves.is_secret_name has the same words.
var secretParts = []string{"token", "secret", "password", "passwd", "passphrase", "credential", "apikey", "privatekey", "accesskey", "accountkey", "sharedkey",
	"signingkey", "encryptionkey", "authorization", "cookie", "service_account", "serviceaccount"}

// secretWords are too short to be looked for within others.
var secretWords = []string{"key", "keys", "sig", "signature", "pwd", "pass", "auth", "jwt", "bearer", "pin", "otp"}

// queryWords are secrets in a query only: elsewhere they are words like others.
var queryWords = []string{"code", "session", "sid", "ticket"}

// IsSecret says whether a key names something that is not to be shown.
func IsSecret(key string) bool {
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

// Object is a JSON object with its secrets masked: the values of keys that look secret, and passwords and
// tokens in URLs.
func Object(object []byte) json.RawMessage { return WithoutSecrets(object, true) }

// WithoutSecrets is Object; without numbers those are shown whatever their key: they count tokens, in what a job is given and what comes of it.
func WithoutSecrets(object []byte, numbers bool) json.RawMessage {
	value, err := Decode(object)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	out, err := Encode(Value(value, numbers))
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return out
}

// Encode writes a JSON value as it is shown: without the escapes of HTML.
func Encode(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSpace(out.Bytes()), err
}

// Decode reads a JSON value, its numbers as they are written.
func Decode(object []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// Value masks what is in a value; WithoutSecrets says what numbers means.
func Value(value any, numbers bool) any {
	switch v := value.(type) {
	case map[string]any:
		named := namesSecret(v)
		for key, inner := range v {
			_, isFlag := inner.(bool)
			_, isNumber := inner.(json.Number)
			if (IsSecret(key) || named && isValue(key)) && inner != nil && !isFlag && (numbers || !isNumber) {
				v[key] = Mask
			} else {
				v[key] = Value(inner, numbers)
			}
		}
	case []any:
		before := ""
		for i, inner := range v {
			text, isText := inner.(string)
			if v[i] = Value(inner, numbers); isText && (len(v) == 2 || strings.HasPrefix(before, "-")) && IsSecret(before) {
				v[i] = Mask // ["X-Api-Key", …], ["--password", …]
			}
			before = text
		}
	case string:
		if secret.IsEnvelope(v) {
			return Mask
		}
		return inText(v, Mask)
	}
	return value
}

// namesSecret says whether an object has the name of a secret, whose value stands beside it: {"name": "password", "value": …}.
func namesSecret(object map[string]any) bool {
	for key, value := range object {
		text, isText := value.(string)
		if isText && slices.Contains([]string{"name", "header", "id", "field"}, strings.ToLower(key)) && IsSecret(text) {
			return true
		}
	}
	return false
}

func isValue(key string) bool {
	return strings.EqualFold(key, "value") || strings.EqualFold(key, "values")
}

// URL hides the user and password of a URL or a connection string; any other text stays as it is. A fragment is cut off.
func URL(text string) string { return inText(text, "") }

func inText(text, fragment string) string {
	text = queries(secret.Pairs(secret.Whole(text)))
	if at := strings.IndexAny(text, "?#"); at >= 0 { // a URL in a URL
		text = text[:at+1] + secret.Users(text[at+1:])
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return secret.Users(text)
	}
	changed := false
	switch password, has := u.User.Password(); {
	case u.User != nil && slices.Contains(tokenUsers, u.Scheme) && (!has || password == "" || password == "x-oauth-basic"):
		u.User, changed = url.User(Mask), true // https://token@host
	case has:
		u.User, changed = url.UserPassword(u.User.Username(), Mask), true
	}
	if u.Fragment != "" { // where sign-ins leave their tokens
		u.Fragment, u.RawFragment, changed = fragment, "", true
	}
	if !changed {
		return text
	}
	return u.String()
}

// query matches a parameter of a URL's query, wherever the URL is in a text, and whatever a parser makes of it.
var query = regexp.MustCompile(`([?&;])([^\s=&;?#]{1,200})=([^\s&;#]+)`)

// queries hides the values of parameters that are secrets.
func queries(text string) string {
	if !strings.Contains(text, "=") {
		return text
	}
	return query.ReplaceAllStringFunc(text, func(pair string) string {
		name, _, _ := strings.Cut(pair[1:], "=")
		key, err := url.QueryUnescape(name)
		if err != nil {
			key = name
		}
		if !IsSecret(key) && !slices.ContainsFunc(words(key), func(word string) bool { return slices.Contains(queryWords, word) }) {
			return pair
		}
		return pair[:1] + name + "=" + Mask
	})
}

// tokenUsers are the schemes in whose URLs the user may be a token.
var tokenUsers = []string{"http", "https", "nats", "tls", "ws", "wss"}

// Masked returns the path of a value that has a mask in it: a configuration that was copied from our own output.
func Masked(value any, path string) string {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if found := Masked(inner, path+"."+key); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := Masked(inner, path+"[]"); found != "" {
				return found
			}
		}
	case string:
		if strings.Contains(v, Mask) {
			return path
		}
	}
	return ""
}

// Server hides the password of a server's URL, or of each in a list. What is no URL is hidden altogether.
func Server(text string) string {
	var out []string
	for _, part := range strings.Split(text, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme == "" || u.Host == "" {
			return Mask
		}
		out = append(out, URL(u.String()))
	}
	return strings.Join(out, ",")
}
