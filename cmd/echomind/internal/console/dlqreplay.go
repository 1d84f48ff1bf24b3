package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/sdk/client"
)

// replayBatch is how many dead letters share a transaction per connector, and one trigger.
const replayBatch = 1000

// replayed is what came of one dead letter.
type replayed struct {
	ID          uint64     `json:"id"`
	ConnectorID *int32     `json:"connector_id"`
	SourceID    *string    `json:"source_id"`
	TriggeredAt *time.Time `json:"triggered_at"`
	// Error says why it could not be replayed, and stays; null where it was.
	Error *string `json:"error"`
}

func dlqReplay(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use:   "replay [ID]",
		Short: "Have what a dead letter was about fetched again, and remove it",
		Long: `Have what a dead letter was about fetched again, and remove it. Its message is not published again: it may be older
than what is stored. Its connector is triggered, and its document, if it names one, is fetched whether it has changed or
not. Replaying twice is harmless.

With --all those that cannot be replayed stay, each with its reason, and the exit code is 1. Of very many --background has the server
do it: it prints an operation, which echomind operations show, results and cancel take.`,
		Example: "  echomind dlq replay 7\n  echomind dlq replay --all --connector 3\n  echomind dlq replay --all --background",
	}
	chosen, out := selectLetters(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if chosen.background {
			return chosen.begin(c, f, out, client.CreateLettersOperationBodyActionReplay)
		}
		r := &replaying{alone: !chosen.all, done: []replayed{}}
		if *out != forPrograms {
			r.shown = c.OutOrStdout()
		}
		_, err := eitherLetters(c.Context(), f, func(pool *pgxpool.Pool, stream *broker.Letters) (*replaying, error) {
			r.pool, r.stream = pool, stream
			return r, r.all(c.Context(), chosen.pick(c.Context(), pool, stream, args))
		}, func(through *remote) (*replaying, error) {
			return r, through.replayLetters(c.Context(), chosen, args, r)
		})
		if err == nil && r.failed > 0 {
			err = r.refused()
		}
		if *out == forPrograms {
			return errors.Join(err, out.show(c.OutOrStdout(), r.done, nil))
		}
		if err == nil && len(r.done) == 0 {
			_, err = fmt.Fprintln(r.shown, "no dead letters")
		}
		return err
	}
	return c
}

// replaying is one command's work.
type replaying struct {
	// pool and stream are nil where a server does it.
	pool   *pgxpool.Pool
	stream *broker.Letters
	// shown is where people see each letter as soon as it is done; nil for programs.
	shown io.Writer
	// alone: a single letter was asked for, whose refusal is the command's error.
	alone  bool
	done   []replayed
	failed int
	// last is why the latest of those that failed did.
	last error
}

// refused says that some could not be replayed; of a single one, why.
func (r *replaying) refused() error {
	if r.alone {
		return r.last
	}
	return fmt.Errorf("%d of %d dead letters could not be replayed, and stay", r.failed, len(r.done))
}

// all replays letters in batches: however many there are of a connector, few syncs answer them.
func (r *replaying) all(ctx context.Context, letters iter.Seq2[deadletter.Letter, error]) error {
	var batch []deadletter.Letter
	for letter, err := range letters {
		if err != nil {
			return err
		}
		if batch = append(batch, letter); len(batch) == replayBatch {
			if err := r.batch(ctx, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	return r.batch(ctx, batch)
}

func (r *replaying) batch(ctx context.Context, letters []deadletter.Letter) error {
	type together struct {
		connector     int32
		hasParameters bool // these are refused
	}
	var order []together
	groups := map[together][]deadletter.Letter{}
	for _, l := range letters {
		of := together{l.ConnectorID, l.HasParameters}
		if groups[of] == nil {
			order = append(order, of)
		}
		groups[of] = append(groups[of], l)
	}
	for _, of := range order {
		at, err := deadletter.Replay(ctx, fetchAgain(r.pool, groups[of]), of.connector, groups[of])
		refused := slices.ContainsFunc([]error{deadletter.ErrNobodys, deadletter.ErrGone, deadletter.ErrDisabled, deadletter.ErrParameters},
			func(why error) bool { return errors.Is(err, why) })
		if err != nil && !refused {
			return err
		}
		for _, l := range groups[of] {
			if err := r.finish(ctx, l, at, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish removes a letter, now that what it asks for is committed, and tells what came of it. A letter that is not removed,
// because the process or the broker ends here, is replayed once more some day.
func (r *replaying) finish(ctx context.Context, l deadletter.Letter, at time.Time, why error) error {
	if why == nil {
		if err := r.stream.Remove(ctx, l.ID); err != nil {
			return fmt.Errorf("it is fetched again, but dead letter %d stays; replaying it once more is harmless: %w", l.ID, err)
		}
	}
	return r.tell(l, at, why)
}

// tell says what came of a letter.
func (r *replaying) tell(l deadletter.Letter, at time.Time, why error) error {
	one := replayed{ID: l.ID, ConnectorID: unlessZero(l.ConnectorID), SourceID: unlessZero(l.SourceID)}
	var line string
	if why != nil {
		r.failed++
		r.last = cannot(l, why)
		said := r.last.Error()
		one.Error, line = &said, said
	} else {
		one.TriggeredAt = utc(&at)
		what := fmt.Sprintf("connector %d is synced again", l.ConnectorID)
		if l.SourceID != "" {
			what = fmt.Sprintf("%q of connector %d is fetched again", clip(l.SourceID, 80), l.ConnectorID)
		}
		line = fmt.Sprintf("dead letter %d: %s; `echomind why %d` tells what happens", l.ID, what, l.ConnectorID)
	}
	r.done = append(r.done, one)
	if r.shown == nil || why != nil && r.alone {
		return nil
	}
	_, err := fmt.Fprintln(r.shown, printable(line))
	return err
}

// cannot says why a letter is not replayed and what to do.
func cannot(l deadletter.Letter, why error) error {
	switch {
	case errors.Is(why, deadletter.ErrNobodys):
		return fmt.Errorf("dead letter %d names no connector, nor a session that the ledger knows: there is nothing to fetch again; "+
			"`echomind dlq show %d` shows what it holds, `echomind dlq drop %d` removes it", l.ID, l.ID, l.ID)
	case errors.Is(why, deadletter.ErrGone):
		return fmt.Errorf("connector %d of dead letter %d was deleted: there is nothing to fetch again; remove it with "+
			"`echomind dlq drop %d`", l.ConnectorID, l.ID, l.ID)
	case errors.Is(why, deadletter.ErrDisabled):
		return fmt.Errorf("connector %d of dead letter %d is disabled; enable it first, then replay: "+
			"echomind connectors enable %d", l.ConnectorID, l.ID, l.ConnectorID)
	case errors.Is(why, deadletter.ErrParameters):
		return fmt.Errorf("the run of dead letter %d was asked for with parameters, and another of connector %d would be of all that it is configured for; "+
			"`echomind runs show %s` has them: echomind connectors trigger %d --with PARAMETERS, then echomind dlq drop %d", l.ID, l.ConnectorID, l.Session, l.ConnectorID, l.ID)
	}
	return why
}
