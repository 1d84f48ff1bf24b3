// Civic is the day of a pipeline that shares one GPU: six jobs; two of them ask a model.
//
//	job                     when
//	prompt_sync             00:00
//	civic_crawl             03:00
//	experiment              05:00
//	contributions_analysis  tried each hour from 06:15 to 22:15, until it has completed once that day
//	evaluation              every 30 minutes from 7 to 22, by the first model that is free
//	civic_documents         every 2 hours, for up to 10 minutes, by the first model that is free
//
// Ollama is one GPU: who uses it holds the lock ollama:global. Where it is held, or a provider throttles, the next is taken: openai, claude, mistral,
// gemini. The providers are fakes of the example's own (providers.go); how they answer is in table civic.providers.
//
// Beside `make run` it is started by `make example-civic`. Then
//
//	echomind schedule preview evaluation
//	psql -c "UPDATE civic.providers SET busy = true WHERE name = 'ollama'"
//	echomind connectors trigger civic_documents    # holds the lock now
//	echomind locks list
//	echomind connectors trigger evaluation
//	echomind runs --type evaluation
//	echomind runs show RUN_ID                      # gemini; not ollama locked by run …; not openai 429; …
//
// A test has a day of it go by in seconds (TestACivicDay).
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/sdk/worker"
)

//go:embed setup.sql
var setup string

const (
	evaluationTime = time.Minute
	documentsTime  = 10 * time.Minute
)

func main() {
	// At the first signal the jobs take no new run and let those at work finish within SHUTDOWN_GRACE_SECONDS.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// Runs that finish after the signal ask the providers still.
	pool, err := pgxpool.New(context.WithoutCancel(ctx), os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, setup); err != nil {
		return fmt.Errorf("run setup.sql: %w", err)
	}
	fakes, err := serveFakes(ctx, pool)
	if err != nil {
		return err
	}
	defer fakes.close()
	group, ctx := errgroup.WithContext(ctx)
	for name, work := range map[string]work{
		"prompt_sync":            nothing,
		"civic_crawl":            nothing,
		"experiment":             nothing,
		"contributions_analysis": nothing,
		"evaluation":             fakes.asked(evaluationTime),
		"civic_documents":        fakes.asked(documentsTime),
	} {
		group.Go(func() error { return worker.ServeJob(ctx, name, worker.Job[struct{}]{Work: work}) })
	}
	return group.Wait()
}

type work = func(context.Context, *worker.JobRun, struct{}) (result any, err error)

// nothing stands for work that is not what the example is about.
func nothing(context.Context, *worker.JobRun, struct{}) (any, error) { return nil, nil }

// asked asks the first provider that can be used, for up to so long. Where none can, the run is put off, or fails.
func (f *fakes) asked(atMost time.Duration) work {
	return func(ctx context.Context, run *worker.JobRun, _ struct{}) (any, error) {
		chosen, err := worker.Failover(ctx, run,
			// Others wait for so long, at most, where this worker's machine is gone.
			worker.Provider{Name: "ollama", Lock: "ollama:global", TTL: atMost, Probe: f.probe("ollama")},
			worker.Provider{Name: "openai", Probe: f.probe("openai")},
			worker.Provider{Name: "claude", Probe: f.probe("claude")},
			worker.Provider{Name: "mistral", Probe: f.probe("mistral")},
			worker.Provider{Name: "gemini", Probe: f.probe("gemini")})
		if err != nil {
			return nil, err
		}
		defer chosen.Free()
		if chosen.Lock != nil {
			ctx = chosen.Lock.Context() // ends when the lock is lost
		}
		ctx, cancel := context.WithTimeout(ctx, atMost)
		defer cancel()
		err = f.ask(ctx, chosen.Name)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("%s has not answered within %s", chosen.Name, atMost)
		}
		return map[string]string{"provider": chosen.Name}, err
	}
}
