// Package chunker subscribes to the direct sources, connector.sync.web and connector.sync.file: it fetches content, extracts
// text, cuts it into chunks, and sends them as documents through the worker kit.
package chunker

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/internal/extract"
)

// Tasks are the tasks of the program's child processes: main passes them to confine.Serve first.
var Tasks = []confine.Task{extract.Task, crawl.Task}

// Run connects and works until ctx ends; it returns nil on a clean stop.
func Run(ctx context.Context, cfg Config, process connect.Process) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Worker.Grace = cfg.ShutdownGrace()
	m := newMetrics(process.Metrics)
	room.LimitHeap(cfg.ForChildren(cfg.Worker.Slots), process.Log)
	pool, err := confine.New(ctx, cfg.Children(cfg.Worker.Slots), confine.Limits{MemoryMB: cfg.ReadMemoryMB}, process.Log,
		confine.NewMetrics(process.Metrics))
	if err != nil {
		return err
	}
	defer pool.Close()
	content := room.New(cfg.Content())
	web, err := newWeb(cfg, pool, content, m)
	if err != nil {
		return err
	}
	defer web.close()
	servers, err := connect.Open(ctx, cfg.Common, "chunker", process)
	if err != nil {
		return err
	}
	folders, err := newFile(ctx, cfg, servers.Pool, pool, content, m, process.Log)
	if err != nil {
		return errors.Join(err, servers.Close())
	}
	reach, err := cfg.hashes()
	if err != nil {
		return errors.Join(err, folders.close(), servers.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	for connectorType, handle := range map[string]worker.Handler{"web": web.sync, "file": folders.sync} {
		tuned := cfg.Worker
		tuned.Reach = reach[connectorType]
		w, err := worker.New(connectorType, handle, tuned, servers, process)
		if err != nil {
			return errors.Join(err, folders.close(), servers.Close())
		}
		group.Go(func() error { return w.Run(ctx) })
	}
	return errors.Join(group.Wait(), folders.close(), servers.Close())
}
