package lifecycle

import (
	"context"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

const (
	// page is how many runs a look lists at once.
	page = 1000
	// advances is how often one Advance asks: each time the database looks at 10,000 messages further.
	advances = 50
)

// Ended is a run that was completed.
type Ended struct {
	ConnectorID int32
	Type        string
	Verdict     Verdict
}

// Complete ends a run whose documents are all stored: the run to its verdict, the connector to ACTIVE with the
// new state, in one transaction, so that the cursor never runs ahead of the data. Its verdict is Completed,
// or Skipped where there was nothing to store, or, where its worker has cut it, Failed, or Superseded because it is postponed. It returns ErrFenced where the run is not
// (or no longer) open and whole, or has checkpoints that Advance has to look at first, and ErrHeld, at once, where somebody holds
// the connector.
func (l *Lifecycle) Complete(ctx context.Context, run uuid.UUID) (Ended, error) {
	ended, err := l.completions.ask(ctx, run)
	if err == nil && ended.Verdict == "" {
		return Ended{}, ErrFenced
	}
	return ended, err
}

// WholeRuns lists a page of the open runs behind `after` whose documents are all stored: some process died before it could
// complete them. The last page is shorter than the others, or empty.
func (l *Lifecycle) WholeRuns(ctx context.Context, after uuid.UUID) ([]uuid.UUID, error) {
	return deadline.Get(ctx, "lifecycle.whole_runs", callTimeout, func(ctx context.Context) ([]uuid.UUID, error) {
		return l.q.WholeRuns(ctx, dbgen.WholeRunsParams{After: after, Page: page})
	})
}

// Advance makes the state of the last checkpoint before which everything is stored the connector's, while the run goes
// on, and says whether there was one. It looks at so many messages and no more: a checkpoint that is millions behind the last
// one is reached by several. ErrHeld, at once, where somebody holds the connector.
func (l *Lifecycle) Advance(ctx context.Context, run uuid.UUID) (passed bool, err error) {
	for range advances {
		come, err := deadline.Get(ctx, "lifecycle.advance", callTimeout, func(ctx context.Context) (dbgen.AdvanceRow, error) {
			return l.q.Advance(ctx, run)
		})
		passed = passed || come.Passed
		if err != nil || !come.More {
			return passed, translated("lifecycle.advance", err)
		}
	}
	return passed, nil
}

// CheckpointedRuns lists tries behind `after` whose run has a checkpoint that waits for something to be stored, or for Advance: the tries
// of the first page that has any. None: there are no more.
func (l *Lifecycle) CheckpointedRuns(ctx context.Context, after uuid.UUID) ([]Try, error) {
	for {
		rows, err := deadline.Get(ctx, "lifecycle.checkpointed_runs", callTimeout, func(ctx context.Context) ([]dbgen.CheckpointedRunsRow, error) {
			return l.q.CheckpointedRuns(ctx, dbgen.CheckpointedRunsParams{After: after, Page: page})
		})
		var open []Try
		for _, r := range rows {
			if after = r.TryID; r.IsOpen {
				open = append(open, Try{Run: r.RunID, ID: r.TryID})
			}
		}
		if err != nil || len(open) > 0 || len(rows) < page {
			return open, translated("lifecycle.checkpointed_runs", err)
		}
	}
}
