package crawl

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/room"
)

// Options tune the service's crawls; users do not see them. Zero fields take their defaults.
type Options struct {
	// Extract extracts documents from bodies. Required.
	Extract Extract
	// Runner runs Task, which reads pages' links. Required.
	Runner Runner
	// Transport makes the requests. It must neither follow redirects nor use a proxy. Default: a guarded transport that reaches
	// public addresses only, closed after the crawl.
	Transport http.RoundTripper
	// Hosts shares the limits per host among the crawls of a process. Default: limits for this crawl alone.
	Hosts *Hosts
	// Connector is the connector's id, for messages that name a command.
	Connector int32
	// Owner is the crawl's owner: "come back later" holds the crawls of one owner only. Default: no owner.
	Owner string
	// Room is memory for bodies, from their reading until their documents are sent. Default: no bound.
	Room room.OwnerRoom
	// Logger gets what operators may want to know. Default: none.
	Logger *slog.Logger
	// UserAgent is sent with each request; its leading word is the name that robots.txt rules address.
	// Default: "EchoMindSync/1.0 (+https://github.com/echomind/sync)".
	UserAgent string

	// Concurrency is how many requests one host gets at the same time. Default: 4.
	Concurrency int
	// MinDelay is the shortest time between the starts of two requests to one host. Default: 0.
	MinDelay time.Duration
	// MaxDelay bounds the Crawl-delay of robots.txt. Default: 10 s.
	MaxDelay time.Duration

	// RequestTimeout bounds one request from connect to the last byte of the body. Default: 20 s.
	RequestTimeout time.Duration
	// MaxBodyBytes bounds one body after decompression. The document of a longer body fails. Default: 8 MiB.
	MaxBodyBytes int64
	// MaxRedirects bounds the redirects of one page. Default: 5.
	MaxRedirects int
	// MaxRetries bounds the retries of a request after a 429 or 503. Default: 3.
	MaxRetries int
	// MaxRetryAfter is the longest Retry-After that a crawl waits for; after a longer one the page fails instead of being
	// requested too early. Default: 30 s.
	MaxRetryAfter time.Duration
	// MaxSilence is how many pages in a row may fail without an answer (or with 429 or 503) before the start page is requested
	// again. If that fails, too, the site counts as down and the crawl ends; otherwise the count begins again. Default: 20.
	MaxSilence int

	// RobotsTimeout bounds each request for robots.txt. Default: 10 s.
	RobotsTimeout time.Duration
	// MaxRobotsBytes is how much of a robots.txt is read; the rest is ignored. Default: 512 KiB (RFC 9309 demands at least 500
	// KiB).
	MaxRobotsBytes int64

	// Now is the clock for Retry-After and delays. Default: time.Now.
	Now func() time.Time
	// Wait blocks for d, or until ctx is done, and then returns ctx's error. Default: a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

func (o Options) withDefaults() (Options, func(), error) {
	if o.Extract == nil {
		return o, nil, errors.New("crawl.Options: Extract is missing")
	}
	if o.Runner == nil {
		return o, nil, errors.New("crawl.Options: Runner is missing")
	}
	release := func() {}
	if o.Transport == nil {
		t := guard.New("CHUNKER_ALLOW_CIDRS", nil).Transport(guard.TransportConfig{})
		o.Transport, release = t, t.CloseIdleConnections
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = repeat.Sleep
	}
	o.Hosts = cmp.Or(o.Hosts, NewHosts())
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.UserAgent = cmp.Or(o.UserAgent, "EchoMindSync/1.0 (+https://github.com/echomind/sync)")
	o.Concurrency = cmp.Or(o.Concurrency, 4)
	o.MaxDelay = cmp.Or(o.MaxDelay, 10*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 20*time.Second)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 8<<20)
	o.MaxRedirects = cmp.Or(o.MaxRedirects, 5)
	o.MaxRetries = cmp.Or(o.MaxRetries, 3)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, 30*time.Second)
	o.MaxSilence = cmp.Or(o.MaxSilence, 20)
	o.RobotsTimeout = cmp.Or(o.RobotsTimeout, 10*time.Second)
	o.MaxRobotsBytes = cmp.Or(o.MaxRobotsBytes, 512<<10)
	return o, release, nil
}
