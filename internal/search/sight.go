package search

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Querier asks Postgres: a pool, or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Asking has questions asked of Postgres.
type Asking func(ctx context.Context, work func(ctx context.Context, q Querier) error) error

// Sight is what a search may find: chunks, and where they come from.
type Sight struct {
	ask Asking
	// chunks is the relation that has these chunks and no others, and args are its parameters.
	chunks string
	args   pgx.NamedArgs
	// kept is the relation that says which index is kept.
	kept string
	// scopes are those of the index's points that are looked among; nil: of every scope.
	scopes []string
	// within are the connectors whose vectors are compared where no index is kept, and most is how many of these; nil and 0: all.
	within []int32
	most   int
	// patience is how long these are compared; where most is 0 until the context's end.
	patience time.Duration
}

// Reader is who searches: a user, with the groups they belong to.
type Reader struct {
	UserID int32
	Groups []string
}

// ofReader takes owner and scope from the live connector. The chunks of a deleted connector belong to nobody, even after another connector took its id.
const ofReader = `(SELECT k.id AS connector_id, k.name AS connector, k.scope, k.last_sync_at, k.fresh_within_minutes, k.synced_version, k.config_version,
    now()::timestamptz AS seen_at, d.source_id, d.title, d.url, d.updated_at AS stored_at, c.*
FROM connectors k
JOIN documents d ON d.connector_id = k.id AND d.try_id IS NOT NULL AND d.deleted_at IS NULL
JOIN chunks c ON c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id
WHERE ((k.scope = 'user' AND k.user_id = @user_id::integer) OR k.scope = 'org' OR (k.scope = 'group' AND k.scope_id = ANY (@groups::text[])))
    AND d.config_version >= k.added_version)`

// OfReader is what a reader, named by the caller, may see: the documents of their own connectors, of their groups' and of the organisation's.
func OfReader(pool *pgxpool.Pool, reader Reader) Sight {
	scopes := []string{"org", fmt.Sprint("user_", reader.UserID)}
	for _, group := range reader.Groups {
		scopes = append(scopes, "group_"+group)
	}
	return Sight{
		ask:    func(ctx context.Context, work func(context.Context, Querier) error) error { return work(ctx, pool) },
		chunks: ofReader, kept: "search_index", args: pgx.NamedArgs{"user_id": reader.UserID, "groups": append([]string{}, reader.Groups...)}, scopes: scopes,
	}
}

// OfViewer is what the viewer sees whom the transactions of ask serve: the view api.chunks says what that is. scopes are those of the viewer's
// points, nil for a viewer who sees all. Where no index is kept the chunks of the connectors within are compared, the most of them in the order of these, for so long.
func OfViewer(ask Asking, scopes []string, within []int32, most int, patience time.Duration) Sight {
	return Sight{
		ask: ask, chunks: "api.chunks", kept: "api.search_index", scopes: scopes, within: append([]int32{}, within...), most: most, patience: patience,
	}
}

// with are the parameters of the relation, and others.
func (in Sight) with(more pgx.NamedArgs) pgx.NamedArgs {
	for name, value := range in.args {
		more[name] = value
	}
	return more
}

// narrowed are the conditions of a question on chunks.
func narrowed(q query, args pgx.NamedArgs) (conditions string) {
	if q.Scope != "" {
		conditions += " AND c.scope = @scope::text"
		args["scope"] = q.Scope
	}
	if len(q.Sources) > 0 {
		conditions += " AND c.connector_id = ANY (@sources::integer[])"
		args["sources"] = q.Sources
	}
	return conditions
}

// read reads candidates by their keys, in their order. Those are left out that were replaced, deleted or handed to somebody else since they were found.
func (in Sight) read(ctx context.Context, q query, near []candidate) (hits []Hit, err error) {
	tries, firsts, documents, nos := make([]uuid.UUID, len(near)), make([]int64, len(near)), make([]int64, len(near)), make([]int32, len(near))
	for i, c := range near {
		tries[i], firsts[i], documents[i], nos[i] = c.try, c.firstNo, c.documentID, c.no
	}
	args := in.with(pgx.NamedArgs{"tries": tries, "firsts": firsts, "documents": documents, "nos": nos})
	// One look by keys for each, whatever the planner thinks of the tables.
	sql := `SELECT w.place, c.connector_id, c.connector, c.source_id, c.title, c.url, c.heading_path, c.text, c.start_offset, c.end_offset,
    c.stored_at, c.last_sync_at, c.fresh_within_minutes, c.synced_version, c.config_version, c.seen_at
FROM unnest(@tries::uuid[], @firsts::bigint[], @documents::bigint[], @nos::integer[]) WITH ORDINALITY w (try_id, first_no, document_id, no, place)
CROSS JOIN LATERAL (SELECT * FROM ` + in.chunks + ` c WHERE c.try_id = w.try_id AND c.first_no = w.first_no AND c.document_id = w.document_id AND c.no = w.no` +
		narrowed(q, args) + ` LIMIT 1) c
ORDER BY w.place`
	err = in.ask(ctx, func(ctx context.Context, db Querier) error {
		hits = []Hit{} // the transaction may be repeated
		rows, err := db.Query(ctx, sql, args)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var h Hit
			var place int64
			if err := rows.Scan(&place, &h.ConnectorID, &h.Connector, &h.SourceID, &h.Title, &h.URL, &h.HeadingPath, &h.Text, &h.Start, &h.End,
				&h.Of.StoredAt, &h.Of.LastSyncAt, &h.Of.FreshWithinMinutes, &h.Of.SyncedVersion, &h.Of.ConfigVersion, &h.Of.SeenAt); err != nil {
				return err
			}
			h.Score = near[place-1].score
			hits = append(hits, h)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the hits: %w", err)
	}
	return hits, nil
}
