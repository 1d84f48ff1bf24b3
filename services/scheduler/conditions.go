package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/echomind/sync/internal/conditions"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	// mostAsking is how many conditions are asked at once, each on a connection of its own. Others take turns.
	mostAsking = 4
	// turnOfCondition is after how long a condition gives its place to the next, with whatever of it is due left for its next turn.
	turnOfCondition = 4 * time.Second
	// mostConditions bounds a look. The longest due come first.
	mostConditions = 1000
	// mostQuestions is about how many jobs one statement asks at most.
	mostQuestions = 1000
	// answerHolds is how old an answer may be when its connector is claimed; an older one is asked for again.
	answerHolds = 5 * time.Minute
)

// asking asks the conditions of what is due, each in a goroutine of its own: a slow one holds up neither the tick nor the others.
type asking struct {
	scheduler *Scheduler
	places    *semaphore.Weighted
	group     sync.WaitGroup
	refused   *refusals[int32] // connectors whose answers Postgres refuses to write

	mu   sync.Mutex
	busy map[string]bool
	idle []*conditions.Session
	size map[string]int // how many one statement asks, where it was too much together
	more int            // how much was left at the end of a turn
	err  error
}

func newAsking(s *Scheduler) *asking {
	return &asking{scheduler: s, places: semaphore.NewWeighted(mostAsking), refused: newRefusals[int32](), busy: map[string]bool{}, size: map[string]int{}}
}

// conditions asks what is due and has a condition until ctx ends.
func (s *Scheduler) conditions(ctx context.Context) error {
	defer func() {
		s.asking.group.Wait()
		s.asking.close(ctx)
	}()
	return s.whenAsked(ctx, s.askWake, "conditions", func(ctx context.Context) error {
		return errors.Join(s.asking.outcome(), s.asking.look(ctx, func() { signal(s.askWake) }))
	})
}

// Ask asks the conditions of all that is due, and writes down what comes of it. Connectors whose condition is met are due for the tick
// from then on.
func (s *Scheduler) Ask(ctx context.Context) error {
	for {
		err := s.asking.look(ctx, func() {})
		s.asking.group.Wait()
		s.asking.mu.Lock()
		more := s.asking.more
		s.asking.mu.Unlock()
		if err = errors.Join(err, s.asking.outcome()); err != nil || more == 0 {
			s.asking.close(ctx)
			return err
		}
	}
}

// outcome is what has gone wrong since it was last asked for.
func (a *asking) outcome() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.err
	a.err, a.more = nil, 0
	return err
}

// look starts the conditions that something due asks, and waits for none. It calls left where the turn of a condition was too short for all
// that it asks about.
func (a *asking) look(ctx context.Context, left func()) error {
	due, err := deadline.Get(ctx, "scheduler.due_conditions", queryTimeout, func(ctx context.Context) ([]dbgen.DueConditionsRow, error) {
		return a.scheduler.queries.DueConditions(ctx, dbgen.DueConditionsParams{Most: mostConditions})
	})
	if err != nil {
		return fmt.Errorf("look for conditions that are due: %w", err)
	}
	for _, c := range due {
		a.start(ctx, c, left)
	}
	return nil
}

func (a *asking) start(ctx context.Context, of dbgen.DueConditionsRow, left func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[of.Name] {
		return
	}
	a.busy[of.Name] = true
	a.group.Go(func() {
		more, err := a.turn(ctx, of)
		a.mu.Lock()
		delete(a.busy, of.Name)
		if more {
			a.more++
		}
		if ctx.Err() == nil {
			a.err = errors.Join(a.err, err)
		}
		a.mu.Unlock()
		if more && err == nil {
			left()
		}
	})
}

// turn asks one condition about all that is due, or until its time is over; then there may be more.
func (a *asking) turn(ctx context.Context, of dbgen.DueConditionsRow) (more bool, err error) {
	if err := a.places.Acquire(ctx, 1); err != nil {
		return false, nil
	}
	defer a.places.Release(1)
	session := a.session()
	defer a.give(session)
	until := time.Now().Add(turnOfCondition)
	for ctx.Err() == nil && time.Now().Before(until) {
		n, err := a.batch(ctx, session, of, until)
		if err != nil || n == 0 {
			return false, err
		}
	}
	return true, nil
}

// batch asks about some jobs, and returns for how many something was written down; if the turn ends before it has asked, how many there are.
func (a *asking) batch(ctx context.Context, session *conditions.Session, of dbgen.DueConditionsRow, until time.Time) (int, error) {
	s := a.scheduler
	rows, err := deadline.Get(ctx, "scheduler.asking", queryTimeout, func(ctx context.Context) ([]dbgen.AskingRow, error) {
		return s.queries.Asking(ctx, dbgen.AskingParams{
			Condition: of.Name, Batch: int32(a.together(of.Name)), MostBytes: mostBatchBytes, Refused: a.refused.skipped(time.Now()),
		})
	})
	if err != nil || len(rows) == 0 {
		return 0, wrap("look who asks condition "+of.Name, err)
	}
	if time.Now().After(until) {
		return len(rows), nil
	}
	q := &question{name: of.Name, timeout: time.Duration(of.TimeoutMs) * time.Millisecond, session: session, until: until, answers: map[int32]reply{}}
	may := make([]dbgen.AskingRow, 0, len(rows))
	for _, r := range rows {
		if r.MayUse {
			may = append(may, r)
		} else {
			q.says(r, nil, fmt.Sprintf("condition `%s` is not for user %d", of.Name, r.UserID))
		}
	}
	began := time.Now()
	err = q.ask(ctx, may, conditions.Longest)
	s.metrics.conditionTime.WithLabelValues(of.Name).Observe(time.Since(began).Seconds())
	a.fits(of.Name, len(rows), len(q.answers) == len(rows))
	n, problem := s.writeAnswers(ctx, of.Name, q.answers)
	return n, errors.Join(err, problem)
}

// together is how many are asked about in one statement.
func (a *asking) together(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.size[name], mostQuestions)
}

// fits makes together smaller where time did not suffice for so many jobs, and larger again where it does.
func (a *asking) fits(name string, n int, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !all:
		a.size[name] = max(1, n/4)
	case a.size[name] > 0 && 2*a.size[name] < mostQuestions:
		a.size[name] *= 2
	default:
		delete(a.size, name)
	}
}

// session is a connection that nobody uses.
func (a *asking) session() *conditions.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.idle); n > 0 {
		last := a.idle[n-1]
		a.idle = a.idle[:n-1]
		return last
	}
	cfg := a.scheduler.config
	return conditions.New(cfg.DirectURL(), "echomind-scheduler-conditions", postgres.As(cfg.DatabaseRole))
}

func (a *asking) give(s *conditions.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, s)
}

func (a *asking) close(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.idle {
		s.Close(ctx)
	}
	a.idle = nil
}

// reply is what a condition has said of a connector as it stood.
type reply struct {
	due     time.Time
	version int64
	met     bool
	problem string // of a condition that failed
}

// question asks one condition about several jobs.
type question struct {
	name    string
	timeout time.Duration
	session *conditions.Session
	until   time.Time
	answers map[int32]reply
}

func (q *question) says(r dbgen.AskingRow, met *bool, problem string) {
	if met == nil && problem == "" {
		problem = conditions.NoAnswer(q.name).Error()
	}
	q.answers[r.ID] = reply{due: r.NextSyncAt, version: r.ConfigVersion, met: met != nil && *met, problem: problem}
}

// ask asks about all jobs at once. Where that fails it asks about each half, down to the jobs that are to blame: each fails alone. Jobs
// for which there is no time are left out. An error is Postgres's, and no job's failure.
func (q *question) ask(ctx context.Context, jobs []dbgen.AskingRow, timeout time.Duration) error {
	if len(jobs) == 0 || time.Now().After(q.until) {
		return nil
	}
	if len(jobs) == 1 {
		timeout = q.timeout
	}
	configs := make([]json.RawMessage, len(jobs))
	for i, r := range jobs {
		configs[i] = r.Config
	}
	met, err := q.session.Ask(ctx, q.name, timeout, configs)
	var failed *conditions.Error
	switch {
	case err == nil:
		for i, r := range jobs {
			q.says(r, met[i], "")
		}
		return nil
	case !errors.As(err, &failed):
		return err
	case len(jobs) == 1:
		q.says(jobs[0], nil, failed.Error())
		return nil
	}
	half := len(jobs) / 2
	if err := q.ask(ctx, jobs[:half], timeout); err != nil {
		return err
	}
	return q.ask(ctx, jobs[half:], timeout)
}
