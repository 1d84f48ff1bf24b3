package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

// Known returns what is stored of the connector's documents, by source id. A document without a version token has failed, or is of
// an earlier configuration: the handler must fetch it again in every sync, whether or not the source's list of changes names it,
// because the cursor has passed it.
//
// All of it is in memory at once: for each document its id, token, hash and Memo, which may have MaxMemoBytes, so that 100,000
// documents with memos of 200 bytes are some 45 MB, and with the longest 850 MB. Keep memos short.
func (r *Run) Known(ctx context.Context) (map[string]Known, error) {
	return r.knownOf(ctx, r.listingParts())
}

// knownOf returns the known documents, and whether one of these parts of the listing has shown each.
func (r *Run) knownOf(ctx context.Context, legs []listingPart) (map[string]Known, error) {
	known, after := map[string]Known{}, ""
	var tries []uuid.UUID
	var listings []int32
	var nos []int64
	for _, l := range legs {
		tries, listings, nos = append(tries, l.try), append(listings, l.listing), append(nos, l.no)
	}
	for {
		var page []dbgen.KnownRow
		err := r.Patiently(ctx, "worker.known", func(ctx context.Context) (err error) {
			page, err = r.queries.Known(ctx, dbgen.KnownParams{
				RunID: r.try.Run, TryID: r.try.ID, After: after, Page: knownPage, TryIds: tries, Listings: listings, Nos: nos,
			})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read known documents: %w", asFenced(err))
		}
		for _, d := range page {
			k := Known{
				VersionToken: d.VersionToken, ContentHash: d.ContentHash, RefusedToken: d.RefusedToken, Found: d.Found, Seen: d.Seen,
			}
			if d.Memo != "" {
				k.Memo = json.RawMessage(d.Memo)
			}
			known[d.SourceID] = k
			after = d.SourceID
		}
		if len(page) < knownPage {
			return known, nil
		}
	}
}

// Links returns the links that are stored with a document; none where it is not stored.
func (r *Run) Links(ctx context.Context, sourceID string) ([]string, error) {
	var links []string
	err := r.Patiently(ctx, "worker.links", func(ctx context.Context) (err error) {
		links, err = r.queries.Links(ctx, dbgen.LinksParams{RunID: r.try.Run, TryID: r.try.ID, SourceID: sourceID})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the links of %q: %w", sourceID, asFenced(err))
	}
	return links, nil
}

// DeletionsAllowed says whether this run may delete many documents at once: its user has allowed it, or has switched the
// connector's deletion_guard off. It asks Postgres each time, so a handler asks only where a listing would in fact delete many.
// The error is lifecycle.ErrFenced where the run now belongs to another try.
func (r *Run) DeletionsAllowed(ctx context.Context) (bool, error) {
	var allowed bool
	err := r.Patiently(ctx, "worker.deletions_allowed", func(ctx context.Context) (err error) {
		allowed, err = r.queries.DeletionsAllowed(ctx, dbgen.DeletionsAllowedParams{RunID: r.try.Run, TryID: r.try.ID})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read whether many documents may be deleted: %w", asFenced(err))
	}
	return allowed, nil
}

// asFenced adds lifecycle.ErrFenced to the error by which moves.known, moves.links and moves.deletions_allowed say that the run
// belongs to another try.
func asFenced(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "P0002" {
		return errors.Join(lifecycle.ErrFenced, err)
	}
	return err
}
