package provider

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"
)

// Code gets a user's consent by the authorization code grant (RFC 6749, section 4.1), with PKCE by S256 (RFC 7636) and a state.
type Code struct {
	Issuer
	// AuthURL is where the user consents.
	AuthURL                string
	ClientID, ClientSecret string
	Scopes                 []string
	// Ask are further parameters of the address.
	Ask map[string]string
	// Redirect is the address that the user's browser comes back to.
	Redirect string
	// Partial says that a user may consent to some of the scopes only.
	Partial bool
}

// Begun is what is kept of a consent that was asked for, until the browser comes back.
type Begun struct{ State, Verifier string }

// Begin returns the address at which a user consents.
func (c Code) Begin() (address string, begun Begun) {
	begun = Begun{State: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier()}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(begun.Verifier)}
	for name, value := range c.Ask {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	cfg := c.oauth()
	return cfg.AuthCodeURL(begun.State, options...), begun
}

// Answers says whether the parameters that a browser comes back with are the answer to what was asked, once each.
func (b Begun) Answers(answer url.Values) bool {
	for _, name := range []string{"state", "code", "error", "error_description"} {
		if len(answer[name]) > 1 {
			return false
		}
	}
	return subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(b.State)) == 1 && (answer.Get("code") != "" || answer.Get("error") != "")
}

// Redeem returns the refresh token of a consent, by the parameters that the browser came back with. It asks once: a second use of a code may revoke the
// tokens (RFC 6749, section 4.1.2).
func (c Code) Redeem(ctx context.Context, answer url.Values, begun Begun) (string, error) {
	c.Cleaner.Learn(begun.Verifier)
	if reason := answer.Get("error"); reason != "" {
		return "", c.refusedConsent(reason, answer.Get("error_description"))
	}
	code := answer.Get("code")
	c.Cleaner.Learn(code)
	client, err := c.clientOf(false)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	cfg := c.oauth()
	token, err := cfg.Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), code, oauth2.VerifierOption(begun.Verifier))
	if err != nil {
		return "", c.refusal(ctx, err)
	}
	c.Cleaner.Learn(token.AccessToken)
	if granted, _ := token.Extra("scope").(string); c.Partial && granted != "" {
		for _, scope := range c.Scopes {
			if !slices.Contains(strings.Fields(granted), scope) {
				return "", &Error{Provider: c.Dialect.signIn(), Message: fmt.Sprintf(
					"the consent does not hold %s; connect again, and tick what is asked for", scope)}
			}
		}
	}
	return c.requireRefreshToken(token.RefreshToken)
}

func (c Code) oauth() oauth2.Config {
	return oauth2.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Scopes: c.Scopes, RedirectURL: c.Redirect,
		Endpoint: oauth2.Endpoint{AuthURL: c.AuthURL, TokenURL: c.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
}

// requireRefreshToken returns the refresh token of a consent, or an error where there is none.
func (i Issuer) requireRefreshToken(token string) (string, error) {
	if token == "" {
		return "", &Error{Provider: i.Dialect.signIn(), Message: "the consent left no refresh token; " + i.Dialect.Offline}
	}
	i.Cleaner.Learn(token)
	return token, nil
}

// denied are the reasons of a refused consent.
var denied = []string{"access_denied", "authorization_declined"}

// refusedConsent is the error of a sign-in that gives no code.
func (i Issuer) refusedConsent(reason, description string) error {
	e := &Error{Provider: i.Dialect.signIn(), Reason: clipLine(i.Cleaner.Text(reason)), Message: "it gave no consent"}
	if slices.Contains(denied, e.Reason) {
		e.Message = "the consent was refused; nothing is connected"
	}
	if says := clipLine(i.Cleaner.Text(description)); says != "" {
		e.Message += ": " + says
	}
	return e
}
