package provider

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/oauth2"
)

const (
	loopback = "127.0.0.1"
	// Bounds of the listener, which every program on this machine can reach.
	callbackTime        = 10 * time.Second
	callbackHeader      = 16 << 10
	callbackConnections = 16
	callbackShutdown    = 3 * time.Second
)

// Browser gets a user's consent in a browser on this machine: authorisation code, loopback redirect, PKCE with S256, and a state
// (RFC 8252, RFC 7636; "OAuth 2.0 for Mobile & Desktop Apps" of Google, whose codes for devices give no access to a user's files:
// "OAuth 2.0 for TV and Limited-Input Device Applications", Allowed scopes).
type Browser struct {
	Issuer
	// AuthURL is where the user consents.
	AuthURL                string
	ClientID, ClientSecret string
	Scopes                 []string
	// Ask are further parameters of the address.
	Ask map[string]string
	// Host is the name of this machine in the redirect's address; 127.0.0.1 if empty. Microsoft accepts localhost only.
	Host string
	// Port is the port of the redirect; 0 is any.
	Port int
	// Partial says that a user may consent to some of the scopes only.
	Partial bool
	// Show tells the user which address to open.
	Show func(address string) error
}

// Refresh returns the refresh token of the consent. It waits until ctx ends.
func (b *Browser) Refresh(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(loopback, strconv.Itoa(b.Port)))
	if err != nil {
		return "", fmt.Errorf("wait for the browser: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", errors.Join(err, listener.Close())
	}
	host := cmp.Or(b.Host, loopback)
	cfg := oauth2.Config{
		ClientID: b.ClientID, ClientSecret: b.ClientSecret, Scopes: b.Scopes,
		RedirectURL: "http://" + net.JoinHostPort(host, port),
		Endpoint:    oauth2.Endpoint{AuthURL: b.AuthURL, TokenURL: b.TokenURL, AuthStyle: oauth2.AuthStyleInParams},
	}
	verifier, state := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	b.Cleaner.Learn(verifier)
	wait := &callback{
		state: state, came: make(chan url.Values, 1),
		hosts: []string{net.JoinHostPort(loopback, port), net.JoinHostPort(host, port)},
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name, value := range b.Ask {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	answer, err := wait.serve(ctx, listener, func() error { return b.Show(cfg.AuthCodeURL(state, options...)) })
	if err != nil {
		return "", err
	}
	return b.redeem(ctx, cfg, answer, verifier)
}

// redeem exchanges a code for tokens. It asks once: a second use of a code may revoke the tokens (RFC 6749, section 4.1.2).
func (b *Browser) redeem(ctx context.Context, cfg oauth2.Config, answer url.Values, verifier string) (string, error) {
	if reason := answer.Get("error"); reason != "" {
		return "", b.refusedConsent(reason, answer.Get("error_description"))
	}
	code := answer.Get("code")
	b.Cleaner.Learn(code)
	client, err := b.clientOf(false)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	token, err := cfg.Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", b.refusal(ctx, err)
	}
	b.Cleaner.Learn(token.AccessToken)
	if granted, _ := token.Extra("scope").(string); b.Partial && granted != "" {
		for _, scope := range b.Scopes {
			if !slices.Contains(strings.Fields(granted), scope) {
				return "", &Error{Provider: b.Dialect.signIn(), Message: fmt.Sprintf(
					"the consent does not hold %s; connect again, and tick what is asked for", scope)}
			}
		}
	}
	return b.requireRefreshToken(token.RefreshToken)
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

// callback accepts one request: the redirect with the state that was sent.
type callback struct {
	state string
	hosts []string
	came  chan url.Values
}

// serve shows the address while it listens, and returns the parameters of the redirect. When it returns, nothing listens any more.
func (c *callback) serve(ctx context.Context, listener net.Listener, show func() error) (url.Values, error) {
	server := &http.Server{
		Handler: c, MaxHeaderBytes: callbackHeader, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: callbackTime, ReadTimeout: callbackTime, WriteTimeout: callbackTime, IdleTimeout: callbackTime,
	}
	server.SetKeepAlivesEnabled(false)
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- server.Serve(netutil.LimitListener(listener, callbackConnections))
	}()
	answer, err := c.wait(ctx, ended, show)
	// The page is sent before the listener closes, also when the user has just pressed Ctrl-C.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callbackShutdown)
	defer cancel()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	<-over
	return answer, err
}

func (c *callback) wait(ctx context.Context, ended <-chan error, show func() error) (url.Values, error) {
	if err := show(); err != nil {
		return nil, err
	}
	select {
	case answer := <-c.came:
		return answer, nil
	case err := <-ended:
		return nil, fmt.Errorf("wait for the browser: %w", err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Pages are the same whatever was asked for.
const (
	page        = "<!doctype html><meta charset=utf-8><title>EchoMind</title><p>"
	pageDone    = page + "Done. You can close this window; how it went on is in the terminal.\n"
	pageUnknown = page + "This is not the answer that is waited for. Open the address that the terminal shows.\n"
)

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		w.Header().Set(name, value)
	}
	status, text := http.StatusOK, pageDone
	if !c.take(r) {
		status, text = http.StatusBadRequest, pageUnknown
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// take accepts the redirect, once. A request without the state comes from another page, or another program.
func (c *callback) take(r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Path != "/" || !slices.Contains(c.hosts, r.Host) {
		return false
	}
	query := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(c.state)) != 1 ||
		query.Get("code") == "" && query.Get("error") == "" {
		return false
	}
	select {
	case c.came <- query:
		return true
	default:
		return false
	}
}
