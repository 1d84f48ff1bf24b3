package semantic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// jobTime is how long a run of a system job starts a further batch. The next run continues what it leaves.
	jobTime = 5 * time.Minute
	// reportedLeases is how many expired leases a report names.
	reportedLeases = 20
	// longDeleted is up to where deleted connectors are counted.
	longDeleted = 1000
)

// awayPauses are how long a job waits that has met an outage of Postgres, and another one behind it: it is no failure of the job.
var awayPauses = repeat.Pauses{First: 10 * time.Second, Last: 10 * time.Minute}

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
			return result(s.ForgetWorkers(ctx, until))
		}},
		{"orphan_sweep", "documents of deleted connectors", time.Hour, nil, s.sweepOrphans},
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

// HurryOrphanSweep has the sweep run now where a connector was deleted: what somebody deletes is gone in seconds. It asks for that again until
// it is so, and no deletion waits for it. It measures how long the oldest deletion waits, as a sweep that can remove nothing completes with warnings.
func (s *Semantic) HurryOrphanSweep(ctx context.Context) error {
	hurried := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) error { return q.HurryOrphanSweep(ctx) })
	age, err := deadline.Get(ctx, "semantic.oldest_deletion", queryTimeout, s.queries.OldestDeletion)
	if err != nil {
		return errors.Join(hurried, fmt.Errorf("ask for the oldest deletion: %w", err))
	}
	s.metrics.deletion.Set(age)
	return hurried
}

// serveSystemJobs adds the system jobs that are missing, and works all of them off until ctx ends.
func (s *Semantic) serveSystemJobs(ctx context.Context) error {
	var adding sync.WaitGroup
	defer adding.Wait()
	adding.Go(func() { s.addUntilAllAreThere(ctx) })
	for ctx.Err() == nil {
		err := s.workSystemJobs(ctx)
		if ctx.Err() != nil {
			break
		}
		s.log.Error("the system jobs are not worked off for a minute", "err", err)
		_ = repeat.Sleep(ctx, time.Minute)
	}
	return nil
}

// addUntilAllAreThere tries again as long as one of them cannot be added. The others are worked off meanwhile.
func (s *Semantic) addUntilAllAreThere(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := s.addSystemJobs(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		pause := addPauses.After(failures)
		s.log.Warn("system jobs are missing; they are added again", "err", err, "pause", pause)
		_ = repeat.Sleep(ctx, pause)
	}
}

// workSystemJobs works them off, each in a slot of its own, until ctx ends or one of their handlers does not return.
func (s *Semantic) workSystemJobs(ctx context.Context) error {
	var workers []*worker.Worker
	for _, job := range s.systemJobs() {
		w, err := s.workerOf(ctx, job)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	return worker.RunAll(ctx, workers...)
}

// addSystemJobs adds the missing jobs. A job that exists stays as administrators have left it.
func (s *Semantic) addSystemJobs(ctx context.Context) error {
	var problems []error
	for _, job := range s.systemJobs() {
		added, err := deadline.Get(ctx, "semantic.add_system_job", queryTimeout, func(ctx context.Context) (bool, error) {
			return s.queries.AddSystemJob(ctx, dbgen.AddSystemJobParams{Type: job.connectorType, Name: job.name, Minutes: int32(job.every / time.Minute)})
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("add the system job %s: %w", job.connectorType, err))
		}
		if added {
			s.log.Info("a system job was added", "type", job.connectorType, "every", job.every)
		}
	}
	return errors.Join(problems...)
}

// workerOf works a job off. A job that is at work when serving ends leaves the rest to the next run: it holds no stop up.
func (s *Semantic) workerOf(serving context.Context, job systemJob) (*worker.Worker, error) {
	var met outages // one run of it is at work at a time
	cfg := worker.DefaultConfig()
	cfg.Slots, cfg.LeaseSeconds, cfg.MaxRunMinutes, cfg.Grace = 1, s.config.LeaseSeconds, 60, s.config.ShutdownGrace()
	return worker.NewJob(job.connectorType, worker.Job[struct{}]{
		Check: func(context.Context, *worker.JobRun) (bool, string, error) {
			if job.due == nil {
				return true, "", nil
			}
			due, why := job.due()
			return due, why, nil
		},
		Work: func(ctx context.Context, run *worker.JobRun, _ struct{}) (any, error) {
			ctx, end := context.WithCancelCause(ctx)
			defer end(nil)
			defer context.AfterFunc(serving, func() { end(context.Cause(serving)) })()
			began := time.Now()
			done, err := job.work(ctx, run, began.Add(jobTime))
			switch {
			case err == nil:
				met = outages{}
			case serving.Err() != nil:
				err = worker.Postponed(time.Second, err)
			case s.postgresIsAway(ctx, began, err, &met):
				met.waits++
				s.log.Warn("the database is away; a system job is put off", "type", job.connectorType, "err", err)
				err = worker.Postponed(awayPauses.After(met.waits), fmt.Errorf("the database is away: %w", err))
			}
			return done, err
		},
	}, cfg, s.servers, s.shared)
}

// outages are what a job has met in a row.
type outages struct{ waits, silences int }

// postgresIsAway says whether a job's work ended because Postgres is away, which is a wait, and not for what it asked. What Postgres says of a statement
// is about the statement, unless it answers nothing else either. Where no answer came in time it may be either: the second in a row is the
// statement's.
func (s *Semantic) postgresIsAway(ctx context.Context, began time.Time, err error, met *outages) bool {
	var said *pgconn.PgError
	switch {
	case !postgres.Unavailable(err), errors.Is(err, errIndex) && !errors.As(err, &said):
		return false
	case postgres.Lost(err):
		return true
	case !errors.As(err, &said):
		if met.silences++; met.silences == 1 {
			return true
		}
	}
	return !s.answers(ctx, lifecycle.Try{}, 0, began)
}

// orphansSwept is what the sweep of deleted connectors has done.
type orphansSwept struct {
	Swept int64 `json:"connectors_swept"`
	// Left is not counted beyond longDeleted.
	Left int64 `json:"connectors_left"`
}

// sweepOrphans removes the documents of deleted connectors, a share of each in turn, until there are none or its time is over. One that cannot
// be swept is a warning: were it a failure, all the others would wait for the next try.
func (s *Semantic) sweepOrphans(ctx context.Context, run *worker.JobRun, until time.Time) (any, error) {
	var done orphansSwept
	for more := true; more; {
		round, err := s.SweepDeletedConnectors(ctx, until)
		if err != nil {
			return nil, err
		}
		for _, problem := range round.Held {
			run.Warn(problem.Error())
		}
		done.Swept += round.Whole
		more = round.More && time.Now().Before(until)
		done.Left, err = deadline.Get(ctx, "semantic.deleted_connectors", queryTimeout, func(ctx context.Context) (int64, error) {
			return s.queries.CountDeletedConnectors(ctx, longDeleted)
		})
		if err != nil {
			return nil, fmt.Errorf("count the deleted connectors: %w", err)
		}
		run.Progress(done.Swept, done.Swept+done.Left, "deleted connectors")
	}
	return done, nil
}

func (s *Semantic) hasIndex() (bool, string) {
	return s.index != nil, "no search index is kept outside Postgres"
}

func (s *Semantic) reviewIndex(ctx context.Context, _ *worker.JobRun, until time.Time) (any, error) {
	done, err := s.index.Review(ctx, until)
	var said *pgconn.PgError // it is Postgres, then, that has the turns of the index
	if errors.Is(err, errIndex) && (!errors.As(err, &said) || postgres.Locked(err)) {
		return nil, worker.Postponed(time.Minute, err) // that it is away, or that somebody holds its turn, is a wait, and its looks say so
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
