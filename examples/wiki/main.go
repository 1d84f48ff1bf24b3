// Wiki is a subscriber of another team: it syncs connectors of a type of its own, `wiki`. Each of them names a wiki with a small HTTP
// API: pages, changes and deletions. What is resumed after a crash, retried, fenced and counted is the engine's (package source).
// Copy it to begin a source of your own.
//
//	psql "$DATABASE_URL" -c "INSERT INTO connector_types (name) VALUES ('wiki')"
//	DATABASE_URL=… NATS_URL=… go run ./examples/wiki
//	echomind connectors add --name ours --type wiki --user 1 --refresh 60m --config '{"url":"https://wiki.example.com"}'
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
)

func main() {
	// At the first signal Serve takes no new connector and lets those at work finish within SHUTDOWN_GRACE_SECONDS.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := worker.Serve(ctx, "wiki", handle)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// config is the configuration of a connector.
type config struct {
	// URL is where the wiki is.
	URL string `json:"url"`
}

// Validate names the field, the value and the fix.
func (c config) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("url: %q is not the address of a wiki; write it as https://wiki.example.com", c.URL)
	}
	return nil
}

// client bounds each request. What it may reach is up to the network that the program runs in.
var client = &http.Client{Timeout: 30 * time.Second}

func handle(ctx context.Context, run *worker.Run) error {
	var cfg config
	if err := run.Config(&cfg); err != nil {
		return err // a field that is misspelt stays an error until the user mends it
	}
	if err := cfg.Validate(); err != nil {
		return worker.Permanent(err)
	}
	_, err := syncTo(ctx, cfg, run, run.Request().ConnectorId)
	return err
}

// syncTo syncs a wiki with a store, which is the run, or a connector in memory in tests.
func syncTo(ctx context.Context, cfg config, store source.Store, connector int32) (source.Result, error) {
	w := &wiki{url: cfg.URL, client: client}
	return source.Run(ctx, store, w, source.Options{
		Connector: connector, Reading: "1", Answers: w.answers, Ends: func(err error) bool { return errors.Is(err, errAccount) },
	})
}
