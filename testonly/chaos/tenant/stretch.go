package tenant

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// stretch is a time in which the others do what they always do, and what became of it.
type stretch struct {
	name string
	// runs are what became due in it and completed, by type; "" = all of them.
	runs map[string][]run
	// waiting is how many of the others were due or in flight at its end.
	waiting int
	// load is the machine's, averaged over a minute.
	load  string
	felt  []felt
	since time.Time
	until time.Time
}

// run is how long a run of the others took from due to completed, and from each of its steps to the next.
type run struct{ took, place, worker, read, store time.Duration }

// felt is what came of an attack.
type felt struct {
	attack string
	what   string
	n      int
	// runs are its connectors' by verdict.
	runs string
	// waits is how many of its connectors waited for a place at the end.
	waits int
}

// stretch lets the others live for a while under some attacks. Then the hostile owner's connectors are taken away, and what the
// others had asked for meanwhile comes to its end.
func (l *lab) stretch(ctx context.Context, name string, length time.Duration, under []attack) error {
	s := stretch{name: name, runs: map[string][]run{}}
	l.Log.Info("a stretch begins", "name", name)
	if err := l.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&s.since); err != nil {
		return wrap("ask for the time", err)
	}
	if err := l.lived(ctx, length, under); err != nil {
		return err
	}
	s.load = load()
	err := l.Pool.QueryRow(ctx, `SELECT clock_timestamp(), count(*) FROM connectors
		WHERE id = ANY ($1) AND (run_id IS NOT NULL OR next_sync_at <= clock_timestamp())`, l.ids()).Scan(&s.until, &s.waiting)
	if err != nil {
		return wrap("look who waits", err)
	}
	for _, a := range under {
		f, err := l.felt(ctx, a)
		if err != nil {
			return err
		}
		s.felt = append(s.felt, f)
	}
	if under != nil {
		if err := l.takeAway(ctx); err != nil {
			return err
		}
	}
	if err := l.restOfOthers(ctx); err != nil {
		return err
	}
	if err := l.collect(ctx, &s); err != nil {
		return err
	}
	l.stretches = append(l.stretches, s)
	l.Log.Info("a stretch is over", "name", name, "runs", len(s.runs[""]), "p99", s.p99(""),
		"waiting", s.waiting, "load", s.load)
	return nil
}

// lived lets everybody do what they do for so long.
func (l *lab) lived(ctx context.Context, length time.Duration, under []attack) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	problems := make(chan error, 2+len(under))
	var all sync.WaitGroup
	do := func(work func(context.Context) error) {
		all.Go(func() {
			if err := work(ctx); err != nil && ctx.Err() == nil {
				problems <- err
				cancel()
			}
		})
	}
	for _, a := range under {
		if err := l.owner.begin(ctx, a); err != nil {
			return err
		}
		if a.work != nil {
			do(func(ctx context.Context) error { return a.work(l.owner, ctx) })
		}
	}
	if under != nil {
		do(l.owner.again)
	}
	do(l.live)
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
	early := context.Cause(ctx)
	cancel()
	all.Wait()
	close(problems)
	for err := range problems {
		early = errors.Join(early, err)
	}
	return early
}

// collect reads what became of what was due in a stretch.
func (l *lab) collect(ctx context.Context, s *stretch) error {
	rows, err := l.Pool.Query(ctx, `SELECT type, completed_at - due_at, started_at - due_at, picked_up_at - started_at,
			coalesce(fetched_at, completed_at) - picked_up_at, completed_at - coalesce(fetched_at, completed_at) FROM runs
		WHERE connector_id = ANY ($1) AND due_at >= $2 AND due_at < $3 AND status IN ('completed', 'skipped')`, l.ids(), s.since, s.until)
	if err != nil {
		return wrap("read the ledger", err)
	}
	var kind string
	var r run
	_, err = pgx.ForEachRow(rows, []any{&kind, &r.took, &r.place, &r.worker, &r.read, &r.store}, func() error {
		s.runs[kind], s.runs[""] = append(s.runs[kind], r), append(s.runs[""], r)
		return nil
	})
	return wrap("read the ledger", err)
}

// load is the machine's over the last minute, where it says so.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
