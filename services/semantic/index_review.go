package semantic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/qdrant"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

const (
	// reviewPage is how many points one page has, and reviewPause how long after the last page the first one is reviewed again.
	reviewPage, reviewPause = 256, 5 * time.Minute
	// reviewQueue is with how many changes that wait no page is reviewed: they are brought first.
	reviewQueue = 1000
	// reviewTimeout bounds the review of one page: two calls of Qdrant, and four statements.
	reviewTimeout = 30 * time.Second
	// reviewWait is how long a review waits for its turn at once, and reviewRest how long it rests after that, or while the queue is long.
	reviewWait, reviewRest = 3 * time.Second, time.Second
)

// errLongQueue says that so many changes wait that they are to be brought first.
var errLongQueue = errors.New("many changes wait to be brought to the search index")

// Reviewed is what a review of the collection has found.
type Reviewed struct {
	Pages    int64 `json:"pages"`
	Outdated int64 `json:"outdated_points"`
	// Through says whether the end was reached, or had been a short while ago.
	Through bool `json:"through"`
}

// Review compares the pages of the collection with Postgres, from where the last review ended, until it has reached the end or its time
// is over (errMore). Between turns that feed the index it waits for its own; while many changes wait to be brought it rests.
func (x *Index) Review(ctx context.Context, until time.Time) (all Reviewed, err error) {
	for {
		found, reviewed, err := x.review(ctx)
		switch {
		case postgres.Locked(err) || errors.Is(err, errLongQueue):
			if err := repeat.Sleep(ctx, reviewRest); err != nil {
				return all, err
			}
		case err != nil:
			return all, err
		case !reviewed:
			all.Through = true
			return all, nil
		default:
			all.Pages++
			all.Outdated += found
		}
		if found > 0 {
			x.notify()
		}
		if time.Now().After(until) {
			return all, errMore
		}
	}
}

// review compares the next page of the collection with Postgres, once nobody else has the turn, where its time has come. Outdated
// points come from a request that Qdrant carried out late, or from an earlier state that was restored. It queues their documents:
// a turn brings what these show now, and removes the rest.
//
// It returns how many points it found, and whether it has reviewed a page.
func (x *Index) review(ctx context.Context) (found int64, reviewed bool, err error) {
	err = deadline.Do(ctx, "semantic.index_review", reviewTimeout, func(ctx context.Context) error {
		bounds := postgres.Bounds{Lock: reviewWait, Statement: queryTimeout, Idle: frozenAfter, ByIndex: true}
		return postgres.TxBounded(ctx, x.pool, bounds, func(tx pgx.Tx) (err error) {
			found, reviewed, err = x.reviewPage(ctx, x.queries.WithTx(tx))
			return err
		})
	})
	if err != nil {
		return 0, false, fmt.Errorf("review the search index: %w", err)
	}
	if found > 0 {
		x.metrics.outdated.Add(float64(found))
		x.log.Warn("the search index held outdated points; they are removed or written anew", "points", found)
	}
	return found, reviewed, nil
}

// reviewPage reviews a page in a turn, so that every document whose points are not brought yet waits in the queue.
func (x *Index) reviewPage(ctx context.Context, q *dbgen.Queries) (found int64, reviewed bool, err error) {
	row, err := q.TakeReviewOfSearchIndex(ctx, x.name)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	from := x.qdrant.Collection(search.CollectionName(row.Name, row.Generation))
	held, next, err := from.Page(ctx, row.ReviewFrom, reviewPage)
	if err != nil {
		return 0, false, x.unavailable(err)
	}
	var unnamed []qdrant.Held
	p := dbgen.QueueOutdatedParams{Long: reviewQueue}
	for _, h := range held {
		if !h.Named {
			unnamed = append(unnamed, h)
			continue
		}
		p.Ids, p.ConnectorIds = append(p.Ids, h.DocumentID), append(p.ConnectorIds, h.ConnectorID)
		p.TryIds, p.FirstNos, p.Scopes = append(p.TryIds, h.TryID), append(p.FirstNos, h.FirstNo), append(p.Scopes, h.Scope)
	}
	if len(p.Ids) > 0 {
		if found, err = q.QueueOutdated(ctx, p); err != nil {
			return 0, false, err
		}
		if found < 0 {
			return 0, false, errLongQueue
		}
	}
	if len(unnamed) > 0 {
		if err := from.RemoveHeld(ctx, row.Turn, unnamed); err != nil {
			return 0, false, x.unavailable(err)
		}
	}
	keep := dbgen.KeepReviewOfSearchIndexParams{ReviewFrom: &next}
	if next == "" {
		keep = dbgen.KeepReviewOfSearchIndexParams{Pause: reviewPause}
	}
	return found + int64(len(unnamed)), true, q.KeepReviewOfSearchIndex(ctx, keep)
}
