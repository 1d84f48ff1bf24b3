package signin

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/echomind/sync/internal/deadline"
)

const (
	fetchTimeout = 5 * time.Second
	maxDocument  = 256 << 10
	maxKeys      = 100
)

// Away says that the issuer does not answer, and that it is not known without it who somebody is.
type Away struct {
	RetryAfter time.Duration
	cause      error
}

func (a *Away) Error() string { return "the issuer of tokens does not answer" }

func (a *Away) Unwrap() error { return a.cause }

// keys are an issuer's public keys. They are fetched when they are needed, and again when they are old or when a token names another one.
type keys struct {
	issuer string
	client *http.Client
	log    *slog.Logger
	fetched[[]jose.JSONWebKey]
}

func newKeys(issuer string, log *slog.Logger) *keys {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: fetchTimeout,
		DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	}
	refuse := func(*http.Request, []*http.Request) error { return errors.New("it redirects, which is not followed") }
	k := &keys{issuer: issuer, client: &http.Client{Transport: bodies{transport}, CheckRedirect: refuse}, log: log}
	k.fetched = fetched[[]jose.JSONWebKey]{ask: k.download, now: time.Now, warn: func(err error) {
		log.Warn("the keys of the issuer of tokens are not known anew", "issuer", issuer, "err", clipped(err))
	}}
	return k
}

// of returns the keys that may have signed a token.
func (k *keys) of(ctx context.Context, id, algorithm string) ([]crypto.PublicKey, error) {
	held, away := k.get(ctx, func(held []jose.JSONWebKey) bool { return len(matching(held, id, algorithm)) == 0 })
	switch found := matching(held, id, algorithm); {
	case away != nil:
		return nil, away
	case len(found) > 0:
		return found, nil
	}
	return nil, Refused("The token is signed with a key that its issuer does not show.")
}

func matching(held []jose.JSONWebKey, id, algorithm string) (found []crypto.PublicKey) {
	for _, key := range held {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, key.Key)
		}
	}
	return found
}

func clipped(err error) string {
	text := err.Error()
	return text[:min(len(text), 300)]
}

func (k *keys) download(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx = oidc.ClientContext(ctx, k.client)
	at, err := deadline.Get(ctx, "oidc.discovery", fetchTimeout, func(ctx context.Context) (*url.URL, error) {
		provider, err := oidc.NewProvider(ctx, k.issuer)
		if err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		var document struct {
			Keys string `json:"jwks_uri"`
		}
		if err := provider.Claims(&document); err != nil {
			return nil, fmt.Errorf("discovery: %w", err)
		}
		at, err := url.Parse(document.Keys)
		if err != nil || at.Host == "" || !safe(at) {
			return nil, errors.New("discovery: jwks_uri is no URL with https")
		}
		return at, nil
	})
	if err != nil {
		return nil, err
	}
	return deadline.Get(ctx, "oidc.keys", fetchTimeout, func(ctx context.Context) ([]jose.JSONWebKey, error) { return k.shown(ctx, at) })
}

func (k *keys) shown(ctx context.Context, at *url.URL) ([]jose.JSONWebKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("keys: %s", answer.Status)
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&document); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("keys: there are more than %d", maxKeys)
	}
	var found []jose.JSONWebKey
	for _, text := range document.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) == nil && signs(key) { // one of a kind that we do not know is for others
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("keys: there is none that tokens may be signed with")
	}
	return found, nil
}

// signs says whether a key is public and of a kind that may sign tokens.
func signs(key jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= 2048 && public.N.BitLen() <= 8192
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// bodies bounds answers.
type bodies struct{ transport *http.Transport }

// RoundTrip is part of http.RoundTripper.
func (b bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.transport.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxDocument}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read is part of io.Reader.
func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the document has more than %d bytes", maxDocument)
	}
	return n, err
}
