package signin

import (
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
)

func ringOf(t *testing.T, keys ...string) *secret.Ring {
	t.Helper()
	ring, err := secret.Parse(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newKey(t *testing.T) string {
	t.Helper()
	key, err := secret.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pageOf(t *testing.T, ring *secret.Ring, clientSecret string) *Page {
	t.Helper()
	c := valid()
	c.ClientID, c.ClientSecret, c.PageURL, c.PageScopes = "page", clientSecret, "https://sync.example/", []string{"openid"}
	w, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return NewPage(w, ring, slog.New(slog.DiscardHandler))
}

// Connectors have SECRETS_KEY, and the issuer has the client's secret: neither signs anybody in by itself.
func TestASessionOpensForWhoHasBothKeys(t *testing.T) {
	first, second := newKey(t), newKey(t)
	who := Said{Scopes: identity.Scopes, Issuer: "https://id.example/realms/main", Subject: "alice", Groups: []string{"g"}}
	kept, err := pageOf(t, ringOf(t, first), "a-secret-of-sixteen").Session(who)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		page *Page
		want bool
	}{
		"another replica":              {pageOf(t, ringOf(t, first), "a-secret-of-sixteen"), true},
		"one whose keys are changed":   {pageOf(t, ringOf(t, second, first), "a-secret-of-sixteen"), true},
		"one that has forgotten a key": {pageOf(t, ringOf(t, second), "a-secret-of-sixteen"), false},
		"another secret":               {pageOf(t, ringOf(t, first), "a-Secret-of-sixteen"), false},
		"no issuer":                    {nil, false},
	} {
		said, err := c.page.Resume(kept)
		if (err == nil) != c.want || c.want && (said.Subject != "alice" || len(said.Groups) != 1 || !slices.Equal(said.Scopes, []identity.Scope{identity.Read})) {
			t.Errorf("%s: %+v, %v", what, said, err)
		}
	}
	forged, err := ringOf(t, first).Seal(0, "page.session", `{"Said":{"Issuer":"https://id.example/realms/main","Subject":"root"},"Until":"2999-01-01T00:00:00Z"}`)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := pageOf(t, ringOf(t, first), "a-secret-of-sixteen").Resume(forged); err == nil {
		t.Errorf("who has SECRETS_KEY alone is %+v", said)
	}
}

func TestWhatABrowserKeepsEndsByItself(t *testing.T) {
	p := pageOf(t, ringOf(t, newKey(t)), "a-secret-of-sixteen")
	over, err := p.seal.close("session", session{Said{Issuer: p.ways.config.Issuer, Subject: "alice"}, time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := p.Resume(over); err == nil {
		t.Errorf("%+v is signed in", said)
	}
	other, err := p.seal.close("session", session{Said{Issuer: "https://other.example", Subject: "alice"}, time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := p.Resume(other); err == nil {
		t.Errorf("%+v is signed in, whom an issuer of before has signed in", said)
	}
	begun, err := p.seal.close("flow", flow{State: "s", Nonce: "n", Until: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Begun(begun, url.Values{"state": {"s"}, "code": {"c"}}); err == nil || !strings.Contains(err.Error(), "ten minutes") {
		t.Error(err)
	}
}
