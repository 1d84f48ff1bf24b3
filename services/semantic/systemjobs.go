package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// jobTime is how long a run of a system job starts a further batch. The next run continues what it leaves.
	jobTime = 5 * time.Minute
	// jobLease is the lease of their workers, in seconds. A run that waits a minute for its rescue harms nobody, and the workers beat seldom.
	jobLease = 60
	// reportedLeases is how many expired leases a report names.
	reportedLeases = 20
	// longDeleted is up to where deleted connectors are counted.
	longDeleted = 1000
)

// addPauses are how long the system jobs wait to be added while Postgres refuses or is away.
var addPauses = repeat.Pauses{First: time.Second, Last: time.Minute}

// systemJob is housekeeping on a schedule, which administrators may change: docs/adr/0039.
type systemJob struct {
	connectorType, name string
	every               time.Duration
	// due says why there is nothing to do; nil: there always is.
	due  func() (bool, string)
	work func(ctx context.Context, run *worker.JobRun, until time.Time) (result any, err error)
}

// systemJobs are all of them. What a promise hangs on is no job, but a look: a job waits while the scheduler or NATS is away.
func (s *Semantic) systemJobs() []systemJob {
	return []systemJob{
		{"ledger_retention", "old weeks of the ledger", time.Hour, nil, func(ctx context.Context, _ *worker.JobRun, until time.Time) (any, error) {
			return result(s.KeepLedger(ctx, until))
		}},
		{"audit_retention", "old entries of the audit", time.Hour, nil, func(ctx context.Context, _ *worker.JobRun, until time.Time) (any, error) {
			rows, err := s.KeepAudit(ctx, until)
			return result(map[string]int64{"rows_removed": rows}, err)
		}},
		{"lease_sweep", "workers and locks that ended long ago", time.Hour, nil, func(ctx context.Context, _ *worker.JobRun, until time.Time) (any, error) {
			workers, err := s.ForgetWorkers(ctx, until)
			return result(map[string]int64{"workers_forgotten": workers}, err)
		}},
		{"orphan_sweep", "documents of deleted connectors", 10 * time.Minute, nil, s.sweepOrphans},
		{"search_index_review", "outdated points of the search index", 10 * time.Minute, s.hasIndex, s.reviewIndex},
		{"lease_report", "runs whose worker is silent", 15 * time.Minute, nil, s.reportLeases},
	}
}

// result is what a job has done. What is left is no failure.
func result[R any](done R, err error) (any, error) {
	if errors.Is(err, errMore) {
		err = nil
	}
	return done, err
}

// serveSystemJobs adds the system jobs that are missing, and works them off until ctx ends.
func (s *Semantic) serveSystemJobs(ctx context.Context) error {
	for failures := 0; ; failures++ {
		err := s.addSystemJobs(ctx)
		if err == nil {
			break
		}
		pause := addPauses.After(failures)
		if ctx.Err() == nil {
			s.log.Warn("the system jobs are not added; tried again", "err", err, "pause", pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
	var group errgroup.Group
	for _, job := range s.systemJobs() {
		group.Go(func() error {
			s.serveSystemJob(ctx, job)
			return nil
		})
	}
	return group.Wait()
}

// serveSystemJob works off one of them until ctx ends. What becomes of it stops neither the other jobs nor semantic.
func (s *Semantic) serveSystemJob(ctx context.Context, job systemJob) {
	for ctx.Err() == nil {
		w, err := s.workerOf(job)
		if err == nil {
			err = w.Run(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		s.log.Error("a system job is not worked off for a minute", "type", job.connectorType, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
}

// addSystemJobs adds those that are missing. One that is there stays as administrators have left it.
func (s *Semantic) addSystemJobs(ctx context.Context) error {
	for _, job := range s.systemJobs() {
		added, err := deadline.Get(ctx, "semantic.add_system_job", queryTimeout, func(ctx context.Context) (bool, error) {
			return s.queries.AddSystemJob(ctx, dbgen.AddSystemJobParams{Type: job.connectorType, Name: job.name, Minutes: int32(job.every / time.Minute)})
		})
		if err != nil {
			return fmt.Errorf("add the system job %s: %w", job.connectorType, err)
		}
		if added {
			s.log.Info("a system job was added", "type", job.connectorType, "every", job.every)
		}
	}
	return nil
}

func (s *Semantic) workerOf(job systemJob) (*worker.Worker, error) {
	cfg := worker.DefaultConfig()
	cfg.Slots, cfg.LeaseSeconds, cfg.MaxRunMinutes, cfg.Grace = 1, jobLease, 60, s.config.ShutdownGrace()
	return worker.NewJob(job.connectorType, worker.Job[struct{}]{
		Check: func(context.Context, *worker.JobRun) (bool, string, error) {
			if job.due == nil {
				return true, "", nil
			}
			due, why := job.due()
			return due, why, nil
		},
		Work: func(ctx context.Context, run *worker.JobRun, _ struct{}) (any, error) {
			return job.work(ctx, run, time.Now().Add(jobTime))
		},
	}, cfg, s.servers, s.shared)
}

// sweepOrphans removes the documents of deleted connectors, a share of each in turn.
func (s *Semantic) sweepOrphans(ctx context.Context, run *worker.JobRun, until time.Time) (any, error) {
	count := func() (int64, error) {
		return deadline.Get(ctx, "semantic.deleted_connectors", queryTimeout, func(ctx context.Context) (int64, error) {
			return s.queries.CountDeletedConnectors(ctx, longDeleted)
		})
	}
	before, err := count()
	for left := before; err == nil; {
		if left == 0 || time.Now().After(until) {
			return map[string]int64{"connectors_swept": before - left, "connectors_left": left}, nil
		}
		if err = s.SweepDeletedConnectors(ctx); err == nil {
			left, err = count()
			run.Progress(before-left, before, "deleted connectors")
		}
	}
	return nil, err
}

func (s *Semantic) hasIndex() (bool, string) {
	return s.index != nil, "no search index is kept outside Postgres"
}

func (s *Semantic) reviewIndex(ctx context.Context, _ *worker.JobRun, until time.Time) (any, error) {
	done, err := s.index.Review(ctx, until)
	if errors.Is(err, errIndex) {
		return nil, worker.Postponed(time.Minute, err) // that it is away is a wait, and its looks say so
	}
	return result(done, err)
}

// expiredLease is one of a report.
type expiredLease struct {
	Run       string    `json:"run"`
	Connector int32     `json:"connector_id"`
	Type      string    `json:"type"`
	ExpiredAt time.Time `json:"expired_at"`
}

// reportLeases says which runs have a silent worker. They are the scheduler's to rescue: it changes nothing.
func (s *Semantic) reportLeases(ctx context.Context, run *worker.JobRun, _ time.Time) (any, error) {
	found, err := deadline.Get(ctx, "semantic.expired_leases", queryTimeout, func(ctx context.Context) ([]dbgen.ExpiredLeasesRow, error) {
		return s.queries.ExpiredLeases(ctx, reportedLeases)
	})
	if err != nil {
		return nil, fmt.Errorf("ask for expired leases: %w", err)
	}
	report := struct {
		Expired int64          `json:"expired"`
		Runs    []expiredLease `json:"runs"`
	}{Runs: []expiredLease{}}
	for _, l := range found {
		report.Expired = l.InAll
		report.Runs = append(report.Runs, expiredLease{l.ID.String(), l.ConnectorID, l.Type, l.ExpiresAt.UTC()})
	}
	if report.Expired > 0 {
		run.Warn(fmt.Sprintf("the workers of %d runs are silent; the scheduler claims the runs again", report.Expired))
	}
	return report, nil
}
