package console

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
)

// eventQueue are the events in Postgres that are not published yet.
type eventQueue struct {
	// Waiting is at most how many wait.
	Waiting  int64      `json:"waiting"`
	OldestAt *time.Time `json:"oldest_at"`
	// DroppedStatus and DroppedVerdicts are how many were ever dropped because too many waited.
	DroppedStatus   int64 `json:"dropped_status"`
	DroppedVerdicts int64 `json:"dropped_verdicts"`
}

func (s *standing) askEvents(ctx context.Context, pool *pgxpool.Pool) error {
	waiting, err := ask(ctx, pool, "events", func(ctx context.Context, q *dbgen.Queries) (dbgen.EventsWaitingRow, error) {
		return q.EventsWaiting(ctx)
	})
	if err != nil {
		return fmt.Errorf("ask for waiting events: %w", err)
	}
	dropped, err := ask(ctx, pool, "events", func(ctx context.Context, q *dbgen.Queries) (dbgen.DroppedEventsRow, error) {
		return q.DroppedEvents(ctx)
	})
	if err != nil {
		return fmt.Errorf("ask for dropped events: %w", err)
	}
	s.Events = &eventQueue{
		Waiting: waiting.Events, OldestAt: utc(waiting.Since), DroppedStatus: dropped.Status, DroppedVerdicts: dropped.Verdicts,
	}
	return nil
}

func (s standing) printEvents(w io.Writer) error {
	if s.Events == nil {
		return nil
	}
	row := []string{count(s.Events.Waiting), clock.Optional(s.Events.OldestAt, s.now), count(s.Events.DroppedStatus), count(s.Events.DroppedVerdicts)}
	return section(w, []string{"EVENTS WAITING", "OLDEST", "EVER DROPPED: STATUS", "VERDICTS"}, [][]string{row}, "")
}
