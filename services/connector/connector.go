package connector

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/dbgen"
	"github.com/echomind/sync/services/connector/provider"
	"github.com/echomind/sync/services/internal/extract"
)

const (
	// brokenOffPause is the first pause before an incomplete answer is asked for again.
	brokenOffPause = 500 * time.Millisecond
	sweepEvery     = time.Hour
)

// service is what all syncs of the process share.
type service struct {
	config  Config
	ring    *secret.Ring
	allowed allowed
	queries *dbgen.Queries
	quotas  *provider.Quotas
	metrics *provider.Metrics
	pool    *confine.Pool
	room    *room.Room
	base    http.RoundTripper
	log     *slog.Logger
}

// handlers are the sources, by type.
func (s *service) handlers() map[string]worker.Handler {
	return map[string]worker.Handler{
		typeGoogleDrive: s.googleDrive, typeOneDrive: s.oneDrive, typeTeams: s.teams,
	}
}

// Tasks are what the program's child processes do: confine.Serve takes them, first in main.
var Tasks = []confine.Task{extract.Task}

// Run connects and works until ctx ends; it returns nil on a clean stop.
func Run(ctx context.Context, cfg Config, process connect.Process) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Worker.Grace = cfg.ShutdownGrace()
	ring, err := secret.Load(cfg.SecretsKeyFile, cfg.SecretsKey)
	if err != nil {
		return err
	}
	if ring == nil {
		process.Log.Warn("there is no key for secrets: connectors that have any fail until SECRETS_KEY_FILE is set")
	}
	own, err := parseAllowed(cfg.MicrosoftAllow)
	if err != nil {
		return err
	}
	ranges, err := guard.Prefixes(allowRanges, cfg.AllowCIDRs)
	if err != nil {
		return err
	}
	transport, err := provider.NewReach(guard.New(allowRanges, ranges), nil,
		cfg.GoogleDriveURL, cfg.GoogleTokenURL, cfg.MicrosoftGraphURL, cfg.MicrosoftLoginURL)
	if err != nil {
		return err
	}
	room.LimitHeap(cfg.ForChildren(cfg.Worker.Slots), process.Log)
	pool, err := confine.New(ctx, cfg.Children(cfg.Worker.Slots), confine.Limits{MemoryMB: cfg.ReadMemoryMB}, process.Log,
		confine.NewMetrics(process.Metrics))
	if err != nil {
		return err
	}
	defer pool.Close()
	servers, err := connect.Open(ctx, cfg.Common, "connector", process)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	s := &service{
		config: cfg, ring: ring, allowed: own, queries: dbgen.New(servers.Pool), base: transport, log: process.Log, pool: pool, room: room.New(cfg.Content()),
		quotas:  provider.NewQuotas(servers.Pool, cfg.limits().LongestWait, provider.System{}, process.Log),
		metrics: provider.NewMetrics(process.Metrics),
	}
	group, ctx := errgroup.WithContext(ctx)
	for connectorType, handle := range s.handlers() {
		w, err := worker.New(connectorType, handle, cfg.Worker, servers, process)
		if err != nil {
			return errors.Join(err, servers.Close())
		}
		group.Go(func() error { return w.Run(ctx) })
	}
	group.Go(func() error { s.sweep(ctx); return nil })
	return errors.Join(group.Wait(), servers.Close())
}

// sweep forgets, from time to time, the quotas of accounts that are not used any more.
func (s *service) sweep(ctx context.Context) {
	for repeat.Sleep(ctx, sweepEvery) == nil {
		if err := s.quotas.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("quotas that nobody uses are not forgotten; it is tried again in an hour", "err", err)
		}
	}
}
