// Package demo shows the whole thing in one go, on real input: a site of its own and a copy of the repository's docs.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/services/semantic"
)

const (
	startTimeout = 90 * time.Second
	syncTimeout  = 60 * time.Second
	queryTimeout = 5 * time.Second
	user         = 1
	// changedFile is the one of the documents that the demo rewrites.
	changedFile = "contract.md"
)

// Config says what the demo works on.
type Config struct {
	// Docs is the folder that is added as a file connector; a copy of it, because the demo changes a file.
	Docs string
	// Out is where the story is told.
	Out io.Writer
	// PrintRuns prints the ledger, as `echomind runs` does.
	PrintRuns func(io.Writer, []dbgen.SchedulerRun) error
	// Stack is how the services run.
	Stack stack.Config
}

// Run starts everything in a temporary folder, shows it, checks what it shows, and leaves nothing behind.
func Run(ctx context.Context, cfg Config) (err error) {
	dir, err := os.MkdirTemp("", "echomind-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // the user that Postgres runs as must reach its own folder below
		return fmt.Errorf("open the temporary folder: %w", err)
	}
	docs := filepath.Join(dir, "docs")
	if err := os.CopyFS(docs, os.DirFS(cfg.Docs)); err != nil {
		return fmt.Errorf("copy the documents in --docs %s: %w", cfg.Docs, err)
	}
	pages, err := startSite(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pages.stop()) }()

	cfg.Stack.Devstack = devstack.Config{DataDir: filepath.Join(dir, "data")}
	cfg.Stack.Chunker.FileRoots = []string{docs}
	cfg.Stack.Chunker.AllowCIDRs = []string{"127.0.0.0/8"}
	started := make(chan devstack.Info, 1)
	cfg.Stack.Started = func(info devstack.Info, _ *devstack.Stack, _, _, _ string) { started <- info }

	group, ctx := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(ctx)
	group.Go(func() error { return stack.Run(working, cfg.Stack) })
	group.Go(func() error {
		defer stop()
		select {
		case info := <-started:
			return show(ctx, cfg, info, pages, docs)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startTimeout):
			return fmt.Errorf("demo.start: the stack is not ready within %s", startTimeout)
		}
	})
	return group.Wait()
}

// story is what the demo holds while it tells.
type story struct {
	Config
	pool     *pgxpool.Pool
	queries  *dbgen.Queries
	searcher *semantic.Searcher
}

func show(ctx context.Context, cfg Config, info devstack.Info, pages *site, docs string) error {
	pool, err := postgres.Open(ctx, info.DatabaseURL, "echomind-demo", 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	s := story{Config: cfg, pool: pool, queries: dbgen.New(pool), searcher: semantic.NewSearcher(pool, cfg.Stack.Semantic.Qdrant)}

	s.say("\n1. Two connectors: a small site on loopback, and a copy of %s.", cfg.Docs)
	began, err := s.now(ctx)
	if err != nil {
		return err
	}
	web, err := s.add(ctx, "handbook", "web", map[string]any{"url": pages.url})
	if err != nil {
		return err
	}
	file, err := s.add(ctx, "docs", "file", map[string]any{"url": "file://" + docs})
	if err != nil {
		return err
	}
	if err := s.follow(ctx, began, nil, web, file); err != nil {
		return err
	}

	s.say("\n2. Search.")
	if err := s.search(ctx, "polish the Fresnel lens", pages.url+"lamps"); err != nil {
		return err
	}
	if err := s.search(ctx, "second consumer on the same subject is refused", changedFile); err != nil {
		return err
	}

	s.say("\n3. One page and one file change; both connectors are triggered; only those two are processed.")
	if err := s.change(ctx, pages, docs, web, file); err != nil {
		return err
	}
	if err := s.search(ctx, "electric bulbs and the paraffin lantern", pages.url+"lamps"); err != nil {
		return err
	}
	if err := s.search(ctx, "the demo was here with a tangerine", changedFile); err != nil {
		return err
	}

	s.say("\n4. The ledger: every slot has a verdict.")
	for _, id := range []int32{web, file} {
		if err := s.ledger(ctx, id); err != nil {
			return err
		}
	}
	s.say("\nThat was all of it. Run it for yourself: make run")
	return nil
}

func (s *story) change(ctx context.Context, pages *site, docs string, web, file int32) error {
	pages.change("/lamps", changedPage)
	name := filepath.Join(docs, changedFile)
	content, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the file to change: %w", err)
	}
	content = append(content, "\n## Postscript\n\nThe demo was here, and left a tangerine.\n"...)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		return fmt.Errorf("change a file: %w", err)
	}
	since, err := s.now(ctx)
	if err != nil {
		return err
	}
	for _, id := range []int32{web, file} {
		err := deadline.Do(ctx, "demo.trigger", queryTimeout, func(ctx context.Context) error {
			_, err := s.queries.TriggerConnector(ctx, dbgen.TriggerConnectorParams{ID: id})
			return err
		})
		if err != nil {
			return fmt.Errorf("trigger connector %d: %w", id, err)
		}
	}
	one := int64(1)
	return s.follow(ctx, since, &one, web, file)
}

func (s *story) say(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format+"\n", args...) }

func (s *story) now(ctx context.Context) (time.Time, error) {
	return deadline.Get(ctx, "demo.now", queryTimeout, s.queries.Now)
}

func (s *story) add(ctx context.Context, name, connectorType string, config map[string]any) (int32, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return 0, fmt.Errorf("encode the config of %s: %w", name, err)
	}
	hourly := int32(60)
	c, err := deadline.Get(ctx, "demo.add", queryTimeout, func(ctx context.Context) (dbgen.Connector, error) {
		return s.queries.AddConnector(ctx, dbgen.AddConnectorParams{
			Name: name, Type: connectorType, UserID: new(int32(user)), Scope: "user", Config: data,
			RefreshFreqMinutes: &hourly, TimeZone: "UTC", MaxRetries: 5,
			SpreadPercent: 10, Overlap: slots.OverlapSkip, CatchUp: slots.CatchUpLatest, CatchUpMost: 10, CalendarUse: slots.Exclude,
		})
	})
	if err != nil {
		return 0, fmt.Errorf("add connector %s: %w", name, err)
	}
	s.say("   added connector %d: %s %s", c.ID, connectorType, data)
	return c.ID, nil
}

// follow shows progress until each connector has its verdict. processed, if not nil, is how many documents each of
// the runs must have processed.
func (s *story) follow(ctx context.Context, since time.Time, processed *int64, ids ...int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, fmt.Errorf("demo.sync: no verdict within %s", syncTimeout))
	defer cancel()
	lines := make(chan string)
	group, ctx := errgroup.WithContext(ctx)
	for _, id := range ids {
		group.Go(func() error {
			run, err := await.Verdict(ctx, s.pool, id, since, func(p await.Progress) {
				lines <- fmt.Sprintf("   connector %d  %s", id, p)
			})
			if err != nil {
				return fmt.Errorf("connector %d: %w", id, err)
			}
			if processed != nil && run.DocumentsProcessed != *processed {
				return fmt.Errorf("connector %d processed %d documents, expected %d", id, run.DocumentsProcessed, *processed)
			}
			return nil
		})
	}
	var err error
	go func() { defer close(lines); err = group.Wait() }()
	for line := range lines {
		s.say("%s", line)
	}
	return err
}

// search shows the best hits and checks that the first is the document it should be.
func (s *story) search(ctx context.Context, text, expected string) error {
	hits, err := s.searcher.Search(ctx, semantic.Reader{UserID: user}, text, 2)
	if err != nil {
		return fmt.Errorf("search %q: %w", text, err)
	}
	s.say("   %q", text)
	for _, h := range hits {
		s.say("     %.2f  %s  %s", h.Score, h.SourceID, excerpt(h.Text))
	}
	if len(hits) == 0 || hits[0].SourceID != expected {
		return fmt.Errorf("search %q: the best hit is not %s", text, expected)
	}
	return nil
}

func (s *story) ledger(ctx context.Context, id int32) error {
	runs, err := deadline.Get(ctx, "demo.runs", queryTimeout, func(ctx context.Context) ([]dbgen.SchedulerRun, error) {
		return s.queries.ListRuns(ctx, dbgen.ListRunsParams{ConnectorID: id, Page: 10})
	})
	if err != nil {
		return fmt.Errorf("read the ledger of connector %d: %w", id, err)
	}
	s.say("   connector %d", id)
	return s.PrintRuns(s.Out, runs)
}

func excerpt(text string) string {
	const most = 70
	all := []rune(line.One(text))
	if len(all) > most {
		return string(all[:most]) + "…"
	}
	return string(all)
}
