package semantic

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
)

// Key names the chunks of one version of a document.
type Key struct {
	Try        uuid.UUID
	FirstNo    int64
	DocumentID int64
}

// Piece is one chunk to keep.
type Piece struct {
	Key
	*internalpb.Chunk // as it came
	No                int32
	Embedder          string
	Vector            []float32
}

// PostgresStore keeps vectors as real[] beside the text.
type PostgresStore struct{}

// NewPostgresStore makes a store.
func NewPostgresStore() *PostgresStore { return &PostgresStore{} }

// Write adds chunks within the transaction.
func (*PostgresStore) Write(ctx context.Context, tx pgx.Tx, pieces []Piece) error {
	if len(pieces) == 0 {
		return nil
	}
	columns := []string{
		"try_id", "first_no", "document_id", "no", "text", "heading_path", "start_offset", "end_offset",
		"embedder", "embedding",
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"chunks"}, columns, pgx.CopyFromSlice(len(pieces), func(i int) ([]any, error) {
		p := &pieces[i]
		path := p.HeadingPath
		if path == nil {
			path = []string{}
		}
		return []any{
			[16]byte(p.Try), p.FirstNo, p.DocumentID, p.No, p.Text, path, p.Start, p.End, p.Embedder, p.Vector,
		}, nil
	}))
	return err
}

// Remove deletes the chunks of keys within the transaction.
func (*PostgresStore) Remove(ctx context.Context, tx pgx.Tx, keys []Key) error {
	if len(keys) == 0 {
		return nil
	}
	var p dbgen.DeleteChunksParams
	for _, k := range keys {
		p.TryIds = append(p.TryIds, k.Try)
		p.FirstNos = append(p.FirstNos, k.FirstNo)
		p.Ids = append(p.Ids, k.DocumentID)
	}
	return dbgen.New(tx).DeleteChunks(ctx, p)
}
