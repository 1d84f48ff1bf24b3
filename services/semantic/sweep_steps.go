package semantic

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// The steps of an ended run, by the numbers that a sweepPlace keeps. First come documents that can still be found; last comes the
// step that reads the most.
const (
	stepOutdated = iota
	stepMessages
	stepCheckpoints
	stepTries
	stepLeftovers
	stepSightings
	stepOrphans
)

// sweepPlace is how far a sweep has come. The database keeps it, so that the next process reads nothing twice.
type sweepPlace struct {
	Step int `json:"step,omitempty"`
	// Each step continues behind its last source, number, id or try. For sightings, Try and No are the last listing that is
	// finished, and After is the place within the listing ID of the try ListingTry.
	After      string    `json:"after,omitempty"`
	No         int64     `json:"no,omitempty"`
	ID         int64     `json:"id,omitempty"`
	Try        uuid.UUID `json:"try,omitzero"`
	ListingTry uuid.UUID `json:"in,omitzero"`
	// Halved is how often the step's batches were halved, because a statement took too long.
	Halved int `json:"halved,omitempty"`
	// Held says that rows were passed over which another transaction holds.
	Held bool `json:"held,omitempty"`
}

// readPlace reads where a sweep of so many steps continues. A place that this version does not understand, such as one of a newer
// version, means the beginning: reading twice does no harm.
func readPlace(kept []byte, steps int) (at sweepPlace) {
	if err := json.Unmarshal(kept, &at); err != nil || at.Step < 0 || at.Step > steps || at.Halved < 0 {
		return sweepPlace{}
	}
	return at
}

func (at sweepPlace) json() []byte {
	text, err := json.Marshal(at)
	if err != nil {
		panic(err) // it has numbers and strings
	}
	return text
}

// size is how many rows a statement takes at this place.
func (at sweepPlace) size(full int32) int32 { return max(1, full>>at.Halved) }

// halve makes the next statement take half as many rows where this one took too long; otherwise it would be too long for ever.
func (at *sweepPlace) halve(ctx context.Context, err error) {
	var late *deadline.Error
	var pg *pgconn.PgError
	if ctx.Err() == nil && (errors.As(err, &late) || errors.As(err, &pg) && pg.Code == "57014") {
		at.Halved = min(at.Halved+1, 12)
	}
}

// sweepStep is one transaction of a sweep: a bounded number of rows, from a place that it moves. more says that there may be more
// rows.
type sweepStep func(ctx context.Context, q *dbgen.Queries, at *sweepPlace) (more bool, err error)

// walk takes one step after another until all are finished, its time is over, or a step fails. Then at is where to continue.
func (s *Semantic) walk(
	ctx context.Context, at *sweepPlace, until time.Time, steps []sweepStep, keep func(context.Context, *dbgen.Queries, sweepPlace) error,
) error {
	for at.Step < len(steps) {
		next, more := *at, false
		if step := steps[at.Step]; step != nil {
			err := s.sweeping(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
				next = *at
				if more, err = step(ctx, q, &next); err == nil && more {
					err = keep(ctx, q, next)
				}
				return err
			})
			if err != nil {
				at.halve(ctx, err)
				return err
			}
		}
		if !more {
			next = sweepPlace{Step: at.Step + 1, Held: next.Held}
		}
		if *at = next; at.Step < len(steps) && time.Now().After(until) {
			return errMore
		}
	}
	return nil
}

// runSteps are the steps of an ended run. A run that was never picked up has no try, but its connector may have something to sweep.
func runSteps(run dbgen.TakeUnsweptRow) []sweepStep {
	steps := []sweepStep{
		stepLeftovers: leftovers(run.ConnectorID),
		stepSightings: sightings(run.ConnectorID),
		stepOrphans:   nil,
	}
	if run.Outdated {
		steps[stepOutdated] = outdated(run.ConnectorID, run.ConfigVersion)
	}
	if run.TryID == nil {
		return steps
	}
	try := *run.TryID
	steps[stepMessages] = numbers(sweepRows, func(ctx context.Context, q *dbgen.Queries, behind int64, batch int32) ([]int64, error) {
		return q.SweepMessages(ctx, dbgen.SweepMessagesParams{TryID: try, Behind: behind, Batch: batch})
	})
	steps[stepCheckpoints] = numbers(sweepCheckpoints, func(ctx context.Context, q *dbgen.Queries, behind int64, batch int32) ([]int64, error) {
		return q.SweepCheckpoints(ctx, dbgen.SweepCheckpointsParams{TryID: try, Behind: behind, Batch: batch})
	})
	steps[stepTries] = numbers(sweepRows, func(ctx context.Context, q *dbgen.Queries, behind int64, batch int32) ([]int64, error) {
		return q.SweepTries(ctx, dbgen.SweepTriesParams{TryID: try, Behind: behind, Batch: batch})
	})
	steps[stepOrphans] = orphans(try)
	return steps
}

// outdated removes a connector's documents of configurations before version.
func outdated(connector int32, version int64) sweepStep {
	return func(ctx context.Context, q *dbgen.Queries, at *sweepPlace) (bool, error) {
		next, err := q.SweepOutdated(ctx, dbgen.SweepOutdatedParams{
			ConnectorID: connector, ConfigVersion: version, Behind: at.After, Page: at.size(sweepPage),
		})
		at.After = next
		return next != "", err
	}
}

// numbers removes rows that have a number.
func numbers(batch int32, remove func(ctx context.Context, q *dbgen.Queries, behind int64, batch int32) ([]int64, error)) sweepStep {
	return func(ctx context.Context, q *dbgen.Queries, at *sweepPlace) (bool, error) {
		// The number of a message's tries may be 0, which is sync completed.
		gone, err := remove(ctx, q, at.No-1, at.size(batch))
		if err != nil || len(gone) < int(at.size(batch)) {
			return false, err
		}
		at.No = slices.Max(gone) + 1
		return true, nil
	}
}

// leftovers removes a connector's documents that a run has left deleted or partial.
func leftovers(connector int32) sweepStep {
	return func(ctx context.Context, q *dbgen.Queries, at *sweepPlace) (bool, error) {
		found, err := q.SweepLeftovers(ctx, dbgen.SweepLeftoversParams{ConnectorID: connector, Behind: at.ID, Page: at.size(sweepPage)})
		at.ID = found.Next
		at.Held = at.Held || found.Held
		return found.Next > 0, err
	}
}

// sightings removes the sightings of tries that are over and that no checkpoint names, one listing after another.
func sightings(connector int32) sweepStep {
	return func(ctx context.Context, q *dbgen.Queries, at *sweepPlace) (bool, error) {
		page, left := at.size(sweepListings), int64(at.size(sweepRows))
		found, err := q.SightedListings(ctx, dbgen.SightedListingsParams{
			ConnectorID: connector, BehindTry: at.Try, Behind: int32(at.No), Page: page,
		})
		if err != nil {
			return false, err
		}
		for _, l := range found {
			if l.IsOver {
				p := dbgen.SweepSightingsParams{ConnectorID: connector, TryID: l.TryID, Listing: l.Listing, Batch: int32(left)}
				if l.TryID == at.ListingTry && int64(l.Listing) == at.ID {
					p.Behind = at.After
				}
				gone, err := q.SweepSightings(ctx, p)
				if err != nil {
					return false, err
				}
				at.ListingTry, at.ID, at.After = l.TryID, int64(l.Listing), gone.SourceID
				if left -= gone.Removed; left == 0 {
					return true, nil
				}
			}
			at.Try, at.No = l.TryID, int64(l.Listing)
		}
		return len(found) == int(page), nil
	}
}

// orphans finds the chunks of a try that no document names.
func orphans(try uuid.UUID) sweepStep {
	return func(ctx context.Context, q *dbgen.Queries, at *sweepPlace) (bool, error) {
		page := at.size(sweepPage)
		last, err := q.SweepOrphanChunks(ctx, dbgen.SweepOrphanChunksParams{TryID: try, BehindNo: at.No, BehindID: at.ID, Page: page})
		if err != nil || len(last) == 0 {
			return false, err
		}
		at.No, at.ID = last[0].FirstNo, last[0].DocumentID
		return last[0].N == page, nil
	}
}
