package api_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	audience = "https://api.example"
	// pageID and pageSecret are the page's at the provider; person is who has an account there.
	pageID, pageSecret = "page", "the-secret-of-the-page"
	person             = "id1"
)

// provider is zitadel's OpenID provider, served by HTTP, on its example's storage. It gives tokens to every client, with the client's name as the subject.
type provider struct {
	*storage.Storage
	*testing.T
	server *httptest.Server
	// asked counts requests for documents: discovery and keys.
	asked atomic.Int32
	down  atomic.Bool

	// back is where it sends people back to, whom it signs in at once; says is what it says of itself besides, or instead.
	back string
	says map[string]any

	mu     sync.Mutex
	key    signingKey
	shown  []signingKey
	claims map[string]any
	lives  time.Duration
}

type signingKey struct {
	id      string
	private *ecdsa.PrivateKey
}

func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.ES256 }
func (k signingKey) Key() any                                    { return k.private }
func (k signingKey) ID() string                                  { return k.id }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.ES256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.private.PublicKey }

// program is a client that is given JWTs of its own.
type program struct {
	op.Client
	id string
}

func (c program) GetID() string                       { return c.id }
func (c program) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (c program) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials}
}
func (c program) ClockSkew() time.Duration       { return 0 }
func (p *provider) Health(context.Context) error { return nil }
func (p *provider) SigningKey(context.Context) (op.SigningKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.key, nil
}

func (p *provider) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.ES256}, nil
}

func (p *provider) KeySet(context.Context) (all []op.Key, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.shown {
		all = append(all, publicKey{key})
	}
	return all, nil
}

func (p *provider) ClientCredentials(_ context.Context, id, _ string) (op.Client, error) {
	return program{storage.WebClient(id, "secret"), id}, nil
}

func (p *provider) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{audience, "https://others.example"}, Scopes: scopes}, nil
}

func (p *provider) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uuid.NewString(), time.Now().Add(p.lives), nil
}

func (p *provider) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.claims), nil
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{T: t, Storage: storage.NewStorage(storage.NewUserStore("http://127.0.0.1")), lives: time.Hour}
	p.rotate()
	var handler http.Handler
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			p.asked.Add(1)
		}
		if p.down.Load() {
			http.Error(w, "down for maintenance", http.StatusBadGateway)
			return
		}
		switch id := r.URL.Query().Get("authRequestID"); {
		case r.URL.Path == "/login/username":
			require.NoError(t, p.CheckUsernamePassword("test-user@127.0.0.1", "verysecure", id))
			http.Redirect(w, r, "/authorize/callback?id="+id, http.StatusFound)
		case p.says != nil && r.URL.Path == oidc.DiscoveryEndpoint:
			p.saysOfItself(w, r, handler)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.server.Close)
	made, err := op.NewProvider(&op.Config{CryptoKey: [32]byte{1}}, p, op.StaticIssuer(p.server.URL), op.WithAllowInsecure())
	require.NoError(t, err)
	handler = made
	return p
}

// pageClient is the page, whose ID tokens have what is said of people.
type pageClient struct{ *storage.Client }

func (c pageClient) IDTokenUserinfoClaimsAssertion() bool { return true }

func (p *provider) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if id != pageID {
		return nil, errors.New("no such client")
	}
	return pageClient{storage.WebClient(id, pageSecret, p.back)}, nil
}

func (p *provider) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id != pageID || secret != pageSecret {
		return errors.New("no such client, or another secret")
	}
	return nil
}

func (p *provider) SetUserinfoFromScopes(_ context.Context, info *oidc.UserInfo, person, _ string, _ []string) error {
	info.Subject = person
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, value := range p.claims {
		info.AppendClaims(name, value)
	}
	return nil
}

func (p *provider) SetUserinfoFromRequest(context.Context, *oidc.UserInfo, op.IDTokenRequest, []string) error {
	return nil
}

// saysOfItself answers with what it says, changed.
func (p *provider) saysOfItself(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	kept := httptest.NewRecorder()
	handler.ServeHTTP(kept, r)
	document := map[string]any{}
	require.NoError(p, json.Unmarshal(kept.Body.Bytes(), &document))
	maps.Copy(document, p.says)
	w.Header().Set("Content-Type", "application/json")
	require.NoError(p, json.NewEncoder(w).Encode(document))
}

// rotate has it sign with a new key, and show that beside the last.
func (p *provider) rotate() {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(p, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key = signingKey{uuid.NewString(), private}
	p.shown = append(p.shown[max(0, len(p.shown)-1):], p.key)
}

// gives asks for a token as a program does.
func (p *provider) gives(subject string, claims map[string]any) string {
	p.Helper()
	p.mu.Lock()
	p.claims = claims
	p.mu.Unlock()
	answer, err := http.PostForm(p.server.URL+"/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {subject}, "client_secret": {"secret"}, "scope": {"openid"}})
	require.NoError(p, err)
	defer func() { require.NoError(p, answer.Body.Close()) }()
	var got struct {
		Token string `json:"access_token"`
	}
	require.NoError(p, json.NewDecoder(answer.Body).Decode(&got))
	require.Equal(p, http.StatusOK, answer.StatusCode)
	require.Equal(p, 2, strings.Count(got.Token, "."))
	return got.Token
}

// usual are the claims of a token that counts.
func (p *provider) usual(change map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{"iss": p.server.URL, "sub": "alice", "aud": audience, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// signs signs claims with its key, as it would not itself.
func (p *provider) signs(claims map[string]any, header map[string]any) string {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return signedBy(p.T, jose.SigningKey{Algorithm: jose.ES256, Key: p.key.private}, claims, header, p.key.id)
}

func signedBy(t *testing.T, key jose.SigningKey, claims, header map[string]any, id string) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithHeader("kid", id)
	for name, value := range header {
		options = options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(key, options)
	require.NoError(t, err)
	text, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(text)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}
