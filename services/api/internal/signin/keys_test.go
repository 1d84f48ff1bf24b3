package signin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer serves keys that the test changes.
type issuer struct {
	*httptest.Server
	mu   sync.Mutex
	down bool
	keys []jose.JSONWebKey
}

func (i *issuer) shows(down bool, ids ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down, i.keys = down, nil
	for _, id := range ids {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		i.keys = append(i.keys, jose.JSONWebKey{Key: &key.PublicKey, KeyID: id, Use: "sig"})
	}
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		document := any(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
		if r.URL.Path == "/keys" {
			// Others of a kind that does not sign, or that nobody knows, are there as well.
			document = map[string]any{"keys": []any{map[string]any{"kty": "oct", "k": "c2VjcmV0", "kid": "secret"}, map[string]any{"kty": "new", "kid": "new"}, one(i.keys, 0), one(i.keys, 1)}}
		}
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(i.Close)
	return i
}

func one(of []jose.JSONWebKey, at int) any {
	if at < len(of) {
		return of[at]
	}
	return map[string]any{}
}

// What a key counts for at each age, by a clock of the test's own.
func TestKeysAreFetchedAnewWhenTheyAreOldAndKeptForADay(t *testing.T) {
	i := newIssuer(t)
	i.shows(false, "a")
	k := newKeys(i.URL, slog.New(slog.DiscardHandler))
	now := time.Now()
	k.now = func() time.Time { return now }
	is := func(id, want string) {
		t.Helper()
		found, err := k.of(t.Context(), id, "ES256")
		var refused Refused
		var away *Away
		got := map[bool]string{true: "refused"}[errors.As(err, &refused)]
		if errors.As(err, &away) {
			got = "away"
		}
		if len(found) > 0 {
			got = "counts"
		}
		if got != want {
			t.Fatalf("%s: %s, want %s (%v)", id, got, want, err)
		}
	}
	settled := func() { // nobody fetches any more
		k.mu.Lock()
		done := k.fetching
		k.mu.Unlock()
		if done != nil {
			<-done
		}
	}
	is("a", "counts")
	is("secret", "refused")
	i.shows(false, "b")
	now = now.Add(6 * time.Second)
	is("b", "counts")
	is("a", "refused")
	i.shows(false, "c")
	is("c", "refused") // it was asked a moment ago
	is("b", "counts")
	now = now.Add(6 * time.Minute)
	is("b", "counts") // and is fetched anew behind it
	settled()
	is("b", "refused") // withdrawn
	is("c", "counts")
	i.shows(true)
	now = now.Add(23 * time.Hour)
	is("c", "counts")
	settled()
	is("d", "away")
	now = now.Add(2 * time.Hour)
	is("c", "away")
	i.shows(false, "c")
	now = now.Add(6 * time.Second)
	is("c", "counts")
	found, err := k.of(t.Context(), "", "ES256")
	if len(found) != 1 || err != nil {
		t.Error(found, err)
	}
}

// Who asks while the keys are fetched waits no longer than its request.
func TestAnIssuerThatIsSilentIsWaitedForAsLongAsTheDeadlineSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeys("https://issuer.example", slog.New(slog.DiscardHandler))
		k.client = &http.Client{Transport: silent{}}
		began := time.Now()
		_, err := k.of(t.Context(), "a", "ES256")
		var away *Away
		if !errors.As(err, &away) || time.Since(began) != fetchTimeout || !strings.Contains(errors.Unwrap(away).Error(), "oidc.discovery") {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAKeyOfAnotherAlgorithmIsNotTried(t *testing.T) {
	held := []jose.JSONWebKey{{Key: 1, KeyID: "a", Algorithm: "RS256"}, {Key: 2, KeyID: "a"}, {Key: 3, KeyID: "b"}}
	if got := matching(held, "a", "ES256"); len(got) != 1 || got[0] != crypto.PublicKey(2) {
		t.Error(got)
	}
}
