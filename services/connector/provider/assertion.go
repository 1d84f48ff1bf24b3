package provider

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// assertionLife is the longest that Google accepts ("Using OAuth 2.0 for server to server applications").
	assertionLife = time.Hour
	// skewed is how far our clock may be from Google's before an assertion uses Google's time.
	skewed = 30 * time.Second
)

// ServiceAccount is an application's own account, or a user's by domain-wide delegation. The oauth2 package has it as well, but
// signs our clock's time into the assertion. Google refuses an assertion whose time is minutes off with the same invalid_grant as a
// revoked one: the user would be told to connect again because of our clock.
type ServiceAccount struct {
	Issuer
	Scopes []string
	// Subject is the user that the account acts for; empty for none.
	Subject string

	email, keyID string
	key          *rsa.PrivateKey
	ahead        time.Duration // how far Google's clock is ahead of ours
}

// ReadKey reads the account's key file, as it was downloaded. Errors reveal nothing of its content.
func (s *ServiceAccount) ReadKey(file string) error {
	var read struct {
		Type  string `json:"type"`
		Email string `json:"client_email"`
		KeyID string `json:"private_key_id"`
		Key   string `json:"private_key"`
	}
	if err := json.Unmarshal([]byte(file), &read); err != nil {
		return errors.New("service_account: it is not the JSON of a key file")
	}
	block, _ := pem.Decode([]byte(read.Key))
	if read.Type != "service_account" || read.Email == "" || block == nil {
		return errors.New("service_account: it is not the key file of a service account; it needs type, client_email and private_key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	key, is := parsed.(*rsa.PrivateKey)
	if err != nil || !is {
		return errors.New("service_account: its private_key is not an RSA key")
	}
	s.email, s.keyID, s.key = read.Email, read.KeyID, key
	return nil
}

// KeyHash identifies the key, after ReadKey. Only a holder of the private key can compute it: the account's address and its public
// certificate are not enough.
func (s *ServiceAccount) KeyHash() string {
	if s.key == nil {
		return ""
	}
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(&s.key.PublicKey))
	return hex.EncodeToString(sum[:])
}

// Fetch gets an access token. Where Google refuses and its clock differs, it is asked once more with its own time.
func (s *ServiceAccount) Fetch(ctx context.Context) (*oauth2.Token, error) {
	token, date, err := s.fetch(ctx)
	if !isFinal(err) || date.IsZero() {
		return token, err
	}
	if off := date.Sub(s.now()); off < skewed && off > -skewed {
		return nil, err
	}
	s.ahead += date.Sub(s.now())
	token, _, err = s.fetch(ctx)
	return token, err
}

func (s *ServiceAccount) now() time.Time {
	return cmp.Or[Clock](s.Clock, System{}).Now().Add(s.ahead)
}

// fetch asks once. date is the time of Google's answer.
func (s *ServiceAccount) fetch(ctx context.Context) (token *oauth2.Token, date time.Time, err error) {
	assertion, err := s.assertion()
	if err != nil {
		return nil, date, err
	}
	client, err := s.client()
	if err != nil {
		return nil, date, err
	}
	s.Cleaner.Learn(assertion)
	token = &oauth2.Token{}
	date, err = s.post(ctx, client, s.TokenURL, url.Values{"grant_type": {jwtBearer}, "assertion": {assertion}}, token)
	switch {
	case err != nil:
		return nil, date, s.refusal(ctx, err)
	case token.AccessToken == "":
		return nil, date, fmt.Errorf("get an access token: %s answered something else", s.Dialect.signIn())
	}
	return token, date, nil
}

// assertion is the signed assertion of the account and its scopes (RFC 7523).
func (s *ServiceAccount) assertion() (string, error) {
	now := s.now()
	header := map[string]any{"alg": "RS256", "typ": "JWT", "kid": s.keyID}
	claims := map[string]any{
		"iss": s.email, "aud": s.TokenURL, "scope": strings.Join(s.Scopes, " "),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}
	if s.Subject != "" {
		claims["sub"] = s.Subject
	}
	parts := make([]string, 0, 3)
	for _, part := range []map[string]any{header, claims} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ".")))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", errors.New("sign with the service account's key: it is refused")
	}
	return strings.Join(append(parts, base64.RawURLEncoding.EncodeToString(signature)), "."), nil
}
