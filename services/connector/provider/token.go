package provider

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"github.com/echomind/sync/internal/secret"
)

// Grant gets access tokens. It is asked by one caller at a time.
type Grant interface {
	Fetch(ctx context.Context) (*oauth2.Token, error)
}

// early is how long before its end a token is renewed: the provider's clock, and the latency, may differ from ours. For a token
// that lives less than four times that, it is a quarter of its life.
const early = 5 * time.Minute

// Tokens keeps an account's access token. Its end is computed from our own clock when it came ("expires_in"), never compared with
// the provider's.
type Tokens struct {
	grant Grant
	clock Clock

	turn   chan struct{} // a lock for the fields below
	token  string
	useful time.Time // when to ask for another
	ends   time.Time
}

// NewTokens keeps the tokens of a grant.
func NewTokens(grant Grant, clock Clock) *Tokens {
	return &Tokens{grant: grant, clock: cmp.Or[Clock](clock, System{}), turn: make(chan struct{}, 1)}
}

// Token returns an access token, and fetches one if necessary; concurrent callers wait for the same one. While the old token is
// valid, an error of the provider is ignored.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	now := t.clock.Now()
	if t.token != "" && now.Before(t.useful) {
		return t.token, nil
	}
	fresh, err := t.grant.Fetch(ctx)
	if err != nil {
		if t.token != "" && now.Before(t.ends) && !isFinal(err) {
			return t.token, nil
		}
		return "", err
	}
	if n := len(fresh.AccessToken); n > secret.MaxBytes {
		return "", fmt.Errorf("get an access token: it has %d bytes, and at most %d are taken", n, secret.MaxBytes)
	}
	t.token = fresh.AccessToken
	t.ends = t.clock.Now().Add(24 * time.Hour) // without a stated end; a 401 ends it
	if life := lifetime(fresh); life > 0 {
		t.ends = t.clock.Now().Add(life)
	}
	t.useful = t.ends.Add(-min(early, t.ends.Sub(t.clock.Now())/4))
	return t.token, nil
}

// lifetime is how long a token lives; a duration in the answer is preferred to a point in time.
func lifetime(token *oauth2.Token) time.Duration {
	switch {
	case token.ExpiresIn > 0:
		return time.Duration(token.ExpiresIn) * time.Second
	case !token.Expiry.IsZero():
		return max(time.Until(token.Expiry), time.Second)
	}
	return 0
}

// Refuse drops a token that the provider did not accept, unless it was replaced already.
func (t *Tokens) Refuse(token string) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.token == token {
		t.token = ""
	}
}
