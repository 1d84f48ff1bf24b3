package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/room"
)

// Options tune the service's crawls; users do not see them. Zero fields take their defaults.
type Options struct {
	// Extract turns bodies into documents. Required.
	Extract Extract
	// Runner reads pages' links. Required.
	Runner Runner
	// Transport makes the requests. It must neither follow redirects nor use a proxy. Default: one of the
	// guard's that reaches public addresses only, closed after the crawl.
	Transport http.RoundTripper
	// Hosts shares the limits per host among the crawls of a process. Default: limits for this crawl alone.
	Hosts *Hosts
	// Connector is the connector's id, for what people are told to do.
	Connector int32
	// Owner is whose crawl this is: "come back later" holds the crawls of one owner alone. Default: nobody's.
	Owner string
	// Room is memory for bodies, from their reading until their documents are sent. Default: without end.
	Room room.OwnerRoom
	// Logger gets what operators may want to know. Default: none.
	Logger *slog.Logger
	// UserAgent is sent with each request; its leading word is the name that robots.txt rules address.
	// Default: "EchoMindSync/1.0 (+https://github.com/echomind/sync)".
	UserAgent string

	// Concurrency is how many requests one host gets at once. Default: 4.
	Concurrency int
	// MinDelay is the least time between the starts of two requests to one host. Default: 0.
	MinDelay time.Duration
	// MaxDelay caps what robots.txt may ask for with Crawl-delay. Default: 10 s.
	MaxDelay time.Duration

	// RequestTimeout bounds one request from connect to the last byte of the body. Default: 20 s.
	RequestTimeout time.Duration
	// MaxBodyBytes bounds one body after decompression. A longer one fails its document. Default: 8 MiB.
	MaxBodyBytes int64
	// MaxRedirects bounds the redirects of one page. Default: 5.
	MaxRedirects int
	// MaxRetries bounds how often a request that was answered 429 or 503 is sent again. Default: 3.
	MaxRetries int
	// MaxRetryAfter is the longest Retry-After that is waited for; for a longer one the page fails instead
	// of being asked too early. Default: 30 s.
	MaxRetryAfter time.Duration
	// MaxSilence is how many pages in a row may fail without an answer (or with 429 or 503) before the start
	// page is asked for once more. If that fails, too, the site counts as down and the crawl ends;
	// else the count begins again. Default: 20.
	MaxSilence int

	// RobotsTimeout bounds each request for robots.txt. Default: 10 s.
	RobotsTimeout time.Duration
	// MaxRobotsBytes is how much of a robots.txt is read; the rest is ignored. Default: 512 KiB (RFC 9309
	// asks for at least 500 KiB).
	MaxRobotsBytes int64

	// Now tells the time, for Retry-After and delays. Default: time.Now.
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
	if o.Hosts == nil {
		o.Hosts = NewHosts()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	setDefault(&o.UserAgent, "EchoMindSync/1.0 (+https://github.com/echomind/sync)")
	setDefault(&o.Concurrency, 4)
	setDefault(&o.MaxDelay, 10*time.Second)
	setDefault(&o.RequestTimeout, 20*time.Second)
	setDefault(&o.MaxBodyBytes, 8<<20)
	setDefault(&o.MaxRedirects, 5)
	setDefault(&o.MaxRetries, 3)
	setDefault(&o.MaxRetryAfter, 30*time.Second)
	setDefault(&o.MaxSilence, 20)
	setDefault(&o.RobotsTimeout, 10*time.Second)
	setDefault(&o.MaxRobotsBytes, 512<<10)
	return o, release, nil
}

func setDefault[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
