package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
)

const (
	loopback = "127.0.0.1"
	// Bounds of the listener, which every program on this machine can reach.
	callbackTime        = 10 * time.Second
	callbackHeader      = 16 << 10
	callbackConnections = 16
	callbackShutdown    = 3 * time.Second
)

// Browser gets a user's consent in a browser on this machine: a Code whose redirect leads to the loopback (RFC 8252; "OAuth 2.0 for
// Mobile & Desktop Apps" of Google, whose codes for devices give no access to a user's files: "OAuth 2.0 for TV and Limited-Input
// Device Applications", Allowed scopes).
type Browser struct {
	Code
	// Host is the name of this machine in the redirect's address; 127.0.0.1 if empty. Microsoft accepts localhost only.
	Host string
	// Port is the port of the redirect; 0 is any.
	Port int
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
	code := b.Code
	code.Redirect = "http://" + net.JoinHostPort(host, port)
	address, begun := code.Begin()
	wait := &callback{
		begun: begun, came: make(chan url.Values, 1),
		hosts: []string{net.JoinHostPort(loopback, port), net.JoinHostPort(host, port)},
	}
	answer, err := wait.serve(ctx, listener, func() error { return b.Show(address) })
	if err != nil {
		return "", err
	}
	return code.Redeem(ctx, answer, begun)
}

// callback accepts one request: the redirect with the state that was sent.
type callback struct {
	begun Begun
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
	if !c.begun.Answers(query) {
		return false
	}
	select {
	case c.came <- query:
		return true
	default:
		return false
	}
}
