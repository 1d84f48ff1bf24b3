package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
)

const (
	// maxWarnings is how many warnings of a run are kept: the first.
	maxWarnings = 100
	// maxSaidBytes holds what is kept of a warning, which is 500 characters, and of a line.
	maxSaidBytes = 2000
	// reportTimeout bounds one report of what a run says, lastReport the last one of a stop.
	reportTimeout = 2 * time.Second
	lastReport    = 500 * time.Millisecond
)

// said is what a run says of itself while it works, for people who ask.
type said struct {
	lifecycle *lifecycle.Lifecycle
	try       lifecycle.Try
	log       *slog.Logger

	mu       sync.Mutex
	report   lifecycle.Report
	unsaid   bool // something of it is not written down
	warned   bool // and a warning among it
	warnings int  // how many there were
}

func (s *said) progress(done, total int64, text string) {
	text = line.One(secret.Short(text, maxSaidBytes))
	done = max(done, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Done, s.report.Total, s.report.Line, s.unsaid = &done, nil, text, true
	if total > 0 {
		s.report.Total = &total
	}
}

func (s *said) warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warnings++; s.warnings <= maxWarnings {
		s.report.Warnings = append(slices.Clip(s.report.Warnings), line.One(secret.Short(text, maxSaidBytes)))
		s.unsaid, s.warned = true, true
	}
}

// warnLast is warn for what is kept in any case: it takes the place of the last warning that is kept.
func (s *said) warnLast(text string) {
	s.mu.Lock()
	s.warnings = min(s.warnings, maxWarnings-1)
	s.report.Warnings = slices.Clip(s.report.Warnings[:min(len(s.report.Warnings), maxWarnings-1)])
	s.mu.Unlock()
	s.warn(text)
}

// writesDown writes down what is said, as often as the worker beats. The returned function ends that.
func (s *said) writesDown(ctx context.Context, every time.Duration) (end func()) {
	writing, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-writing.Done():
				return
			case <-ticker.C:
				_ = s.write(writing, reportTimeout)
			}
		}
	})
	return func() {
		stop()
		done.Wait()
	}
}

// write writes down what is not written down yet, within so long.
func (s *said) write(ctx context.Context, within time.Duration) error {
	s.mu.Lock()
	report, unsaid, warned := s.report, s.unsaid, s.warned
	s.unsaid, s.warned = false, false
	s.mu.Unlock()
	if !unsaid {
		return nil
	}
	if !warned {
		report.Warnings = nil // they are written
	}
	err := deadline.Do(ctx, "worker.report", within, func(ctx context.Context) error {
		return s.lifecycle.Report(ctx, s.try, report)
	})
	if err == nil || errors.Is(err, lifecycle.ErrFenced) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaid, s.warned = true, s.warned || warned // with the next
	if ctx.Err() == nil {
		s.log.Info("what a run says of itself is not written down", "err", err)
	}
	return err
}

// last writes down what was said last. A stop has little time for it.
func (s *said) last(ctx context.Context) error {
	within := reportTimeout
	if ctx.Err() != nil {
		within = lastReport
	}
	return s.write(context.WithoutCancel(ctx), within)
}

// before writes down what was said last, and then ends the run. Where somebody holds the run's row, its end would wait as well: both are tried
// again. Nothing else holds the end up: what cannot be written is lost. The last try of a stop leaves its time to the end.
func (s *said) before(end func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		within := reportTimeout
		_, last := ctx.Deadline()
		if last {
			within = lastReport
		}
		if err := s.write(ctx, within); errors.Is(err, lifecycle.ErrHeld) && !last {
			return err
		}
		return end(ctx)
	}
}
