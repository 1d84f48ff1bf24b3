package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/sdk/lifecycle/internal/dbgen"
)

const (
	// mostTogether bounds a transaction of several moves.
	mostTogether = 100
	// largeState is a state, in bytes, that is written alone: a hundred of them are more than Postgres holds in memory for a statement.
	largeState = 4 << 10
	// togetherTime is when Postgres ends a transaction of several moves: it has locked the rows of all of them.
	togetherTime = time.Second
	// togetherTimeout bounds the call to Postgres. It is longer, so that one that answers has ended the transaction first.
	togetherTimeout = togetherTime + 500*time.Millisecond
)

// What is asked of the database together, in its words.
type (
	pickUp struct {
		Connector int32     `json:"connector"`
		Run       uuid.UUID `json:"run"`
		Try       uuid.UUID `json:"try"`
		worker    uuid.UUID
		lease     time.Duration
	}
	drain struct {
		Run uuid.UUID `json:"run"`
		Try uuid.UUID `json:"try"`
		Seq int64     `json:"seq"`
	}
	skip struct {
		Run       uuid.UUID       `json:"run"`
		Try       uuid.UUID       `json:"try"`
		NewState  json.RawMessage `json:"new_state"`
		Reason    string          `json:"reason"`
		Unchanged int64           `json:"unchanged"`
	}
)

func (p pickUp) alike(o pickUp) bool { return p.worker == o.worker && p.lease == o.lease }

func (l *Lifecycle) pickUp(ctx context.Context, p pickUp) (bool, error) {
	const name = "lifecycle.pick_up"
	taken, err := deadline.Get(ctx, name, callTimeout, func(ctx context.Context) (bool, error) {
		return l.q.PickUp(ctx, dbgen.PickUpParams{
			ConnectorID: p.Connector, RunID: p.Run, TryID: p.Try, WorkerID: p.worker, Lease: p.lease,
		})
	})
	return taken, translated(name, err)
}

func (l *Lifecycle) pickUpAll(ctx context.Context, all []pickUp) ([]*bool, error) {
	return together(ctx, "lifecycle.pick_up", all, func(ctx context.Context, asked []byte) ([]dbgen.PickUpAllRow, error) {
		return l.many.PickUpAll(ctx, dbgen.PickUpAllParams{Asked: asked, WorkerID: all[0].worker, Lease: all[0].lease})
	}, func(r dbgen.PickUpAllRow) (int32, bool) { return r.Place, r.Done })
}

func (l *Lifecycle) drain(ctx context.Context, d drain) (bool, error) {
	const name = "lifecycle.drain"
	drained, err := deadline.Get(ctx, name, callTimeout, func(ctx context.Context) (bool, error) {
		return l.q.Drain(ctx, dbgen.DrainParams{RunID: d.Run, TryID: d.Try, Seq: d.Seq})
	})
	return drained, translated(name, err)
}

func (l *Lifecycle) drainAll(ctx context.Context, all []drain) ([]*bool, error) {
	return together(ctx, "lifecycle.drain", all, l.many.DrainAll,
		func(r dbgen.DrainAllRow) (int32, bool) { return r.Place, r.Done })
}

func (l *Lifecycle) skip(ctx context.Context, s skip) (bool, error) {
	const name = "lifecycle.skip"
	skipped, err := deadline.Get(ctx, name, callTimeout, func(ctx context.Context) (bool, error) {
		return l.q.Skip(ctx, dbgen.SkipParams{
			RunID: s.Run, TryID: s.Try, NewState: s.NewState, Reason: s.Reason, Unchanged: s.Unchanged,
		})
	})
	return skipped, translated(name, err)
}

func (l *Lifecycle) skipAll(ctx context.Context, all []skip) ([]*bool, error) {
	return together(ctx, "lifecycle.skip", all, l.many.SkipAll,
		func(r dbgen.SkipAllRow) (int32, bool) { return r.Place, r.Done })
}

func (l *Lifecycle) complete(ctx context.Context, run uuid.UUID) (Ended, error) {
	const name = "lifecycle.complete"
	rows, err := deadline.Get(ctx, name, callTimeout, func(ctx context.Context) ([]dbgen.CompleteRow, error) {
		return l.q.Complete(ctx, run)
	})
	if err != nil || len(rows) == 0 {
		return Ended{}, translated(name, err)
	}
	return Ended{ConnectorID: rows[0].ConnectorID, Type: rows[0].Type, Verdict: Verdict(rows[0].Verdict)}, nil
}

func (l *Lifecycle) completeAll(ctx context.Context, runs []uuid.UUID) ([]*Ended, error) {
	const name = "lifecycle.complete"
	rows, err := deadline.Get(ctx, name, togetherTimeout, func(ctx context.Context) ([]dbgen.CompleteAllRow, error) {
		return l.many.CompleteAll(ctx, runs)
	})
	if err != nil {
		return nil, err
	}
	answers := make([]*Ended, len(runs))
	for _, r := range rows {
		answers[r.Place] = &Ended{ConnectorID: r.ConnectorID, Type: r.Type, Verdict: Verdict(r.Verdict)}
	}
	return answers, nil
}

// together asks for all of them in one statement. Each of its rows is a place and an answer.
func together[Q, R any](
	ctx context.Context, name string, all []Q, ask func(context.Context, []byte) ([]R, error), read func(R) (int32, bool),
) ([]*bool, error) {
	asked, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rows, err := deadline.Get(ctx, name, togetherTimeout, func(ctx context.Context) ([]R, error) { return ask(ctx, asked) })
	if err != nil {
		return nil, err
	}
	answers := make([]*bool, len(all))
	for _, row := range rows {
		place, done := read(row)
		answers[place] = &done
	}
	return answers, nil
}
