package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/echomind/sync/internal/secret"
)

// Rotator stores a refresh token that replaces the previous one. It returns an error where the run belongs to another try now: then
// the token must not be used either.
type Rotator interface {
	Rotate(ctx context.Context, newToken string) error
}

// Issuer is a token endpoint.
type Issuer struct {
	Dialect Dialect
	// TokenURL is the token endpoint.
	TokenURL string
	// Base makes the requests; Transport() if nil.
	Base http.RoundTripper
	// Limits bound every request.
	Limits Limits
	// Cleaner removes secrets from errors, and learns the issued tokens; nil learns nothing.
	Cleaner *secret.Cleaner
	Metrics *Metrics
	Clock   Clock
	// Waits is called for each wait that the issuer asks for.
	Waits Waits
}

// client makes a client for the token endpoint. A request for a token may be repeated: the providers that we know accept a refresh
// token again when the answer was lost.
func (i Issuer) client() (*http.Client, error) { return i.clientOf(true) }

func (i Issuer) clientOf(repeatPosts bool) (*http.Client, error) {
	client, err := NewClient(Options{
		Dialect: Dialect{Name: i.Dialect.signIn(), Maker: i.Dialect.Maker, Account: i.Dialect.Account, Connect: i.Dialect.Connect, Connector: i.Dialect.Connector},
		Base:    i.Base, Limits: i.Limits, Cleaner: i.Cleaner, Metrics: i.Metrics, Clock: i.Clock, Waits: i.Waits, repeatPosts: repeatPosts,
	})
	if err != nil {
		return nil, err
	}
	// A 307 would send the same form, with its secrets, to another place. The sign-ins that we know do not redirect.
	client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		return fmt.Errorf("%w: the sign-in leads to %s, which must not learn the secrets", errRedirect, req.URL.Host)
	}
	return client, nil
}

// token has the oauth2 package ask, with our client. It looks for that in the context.
func (i Issuer) token(ctx context.Context, ask func(context.Context) (*oauth2.Token, error)) (*oauth2.Token, error) {
	client, err := i.client()
	if err != nil {
		return nil, err
	}
	token, err := ask(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, i.refusal(ctx, err)
	}
	return token, nil
}

// Refresh is the consent of a user.
type Refresh struct {
	Issuer
	ClientID, ClientSecret string
	Scopes                 []string
	// Token is the refresh token; it changes where the provider rotates it.
	Token string
	// Rotator stores rotated tokens; nil drops them.
	Rotator Rotator
}

// Fetch gets an access token. A rotated refresh token is stored before the access token is used: if the process died in between,
// the account could not be used any more.
func (r *Refresh) Fetch(ctx context.Context) (*oauth2.Token, error) {
	cfg := oauth2.Config{
		ClientID: r.ClientID, ClientSecret: r.ClientSecret, Scopes: r.Scopes,
		Endpoint: oauth2.Endpoint{TokenURL: r.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	token, err := r.token(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		return cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: r.Token}).Token()
	})
	if err != nil {
		return nil, err
	}
	if token.RefreshToken != "" && token.RefreshToken != r.Token {
		r.Cleaner.Learn(token.RefreshToken)
		if r.Rotator != nil {
			if err := r.Rotator.Rotate(ctx, token.RefreshToken); err != nil {
				return nil, fmt.Errorf("keep the rotated refresh token: %w", err)
			}
		}
		r.Token = token.RefreshToken
	}
	return token, nil
}

// ClientCredentials are the credentials of an application, which the account's administrator has consented to.
type ClientCredentials struct {
	Issuer
	ClientID, ClientSecret string
	Scopes                 []string
}

// Fetch gets an access token.
func (c *ClientCredentials) Fetch(ctx context.Context) (*oauth2.Token, error) {
	cfg := clientcredentials.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Scopes: c.Scopes, TokenURL: c.TokenURL,
		AuthStyle: oauth2.AuthStyleInParams,
	}
	return c.token(ctx, cfg.Token)
}

// refusal translates the errors of the oauth2 package, whose texts hold the provider's answer.
func (i Issuer) refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if answer, is := errors.AsType[*oauth2.RetrieveError](err); is {
		return i.consent(answer)
	}
	return i.Cleaner.Error(fmt.Errorf("get an access token from %s: %w", i.Dialect.signIn(), err))
}
