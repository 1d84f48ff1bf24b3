package semantic

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

// rareWords of a query are searched for by themselves, because in a long chunk one word is lost in the noise of a hashed
// vector: the longest ones, because longer words are rarer. Each brings up to rareLimit candidates.
const rareWords, rareLimit = 4, 50

// indexName names the index of an embedder's vectors, and collectionName the collection that it is kept in now.
func indexName(cfg config.Qdrant, embedder Embedder) string {
	return cfg.Collection + "-" + embedder.Name()
}

func collectionName(row dbgen.SearchIndexRow) string { return row.Name + "-" + row.Generation.String() }

// pointID is the same whenever a chunk is brought.
func pointID(key Key, no int32) uuid.UUID {
	id := binary.BigEndian.AppendUint64(nil, uint64(key.FirstNo))
	id = binary.BigEndian.AppendUint64(id, uint64(key.DocumentID))
	return uuid.NewSHA1(key.Try, binary.BigEndian.AppendUint32(id, uint32(no)))
}

// version names what a document shows: a message of a try begins one document.
func version(key Key) string { return key.Try.String() + "/" + strconv.FormatInt(key.FirstNo, 10) }

// keyOfVersion is the inverse of version.
func keyOfVersion(p qdrant.Payload) (Key, error) {
	try, firstNo, _ := strings.Cut(p.Version, "/")
	key := Key{DocumentID: p.DocumentID}
	var err error
	if key.Try, err = uuid.Parse(try); err != nil {
		return Key{}, fmt.Errorf("version %q: %w", p.Version, err)
	}
	if key.FirstNo, err = strconv.ParseInt(firstNo, 10, 64); err != nil {
		return Key{}, fmt.Errorf("version %q: %w", p.Version, err)
	}
	return key, nil
}

// shownDocument is a document that shows chunks.
type shownDocument struct {
	Key
	connector int32
	chunks    int32
}

// showing is what the documents of some changes show now.
type showing struct {
	changes   []int64
	ids       []int64 // of all the documents
	versions  []string
	documents []shownDocument // those that show something
}

// newShowing takes changes as long as their documents have no more chunks than most; of one document any number.
func newShowing(rows []dbgen.ChangedDocumentsRow, most int32) (s showing) {
	var chunks int32
	for _, row := range rows {
		if slices.Contains(s.ids, row.DocumentID) {
			s.changes = append(s.changes, row.ID) // it has changed twice
			continue
		}
		if chunks += row.Chunks; chunks > most && len(s.ids) > 0 {
			return s
		}
		s.changes, s.ids = append(s.changes, row.ID), append(s.ids, row.DocumentID)
		if row.ConnectorID == nil || row.TryID == nil || row.FirstNo == nil {
			continue
		}
		key := Key{Try: *row.TryID, FirstNo: *row.FirstNo, DocumentID: row.DocumentID}
		s.versions = append(s.versions, version(key))
		s.documents = append(s.documents, shownDocument{key, *row.ConnectorID, row.Chunks})
	}
	return s
}

// firstPage are the first documents, as many as have fewer chunks than a page, or one.
func firstPage(documents []shownDocument) []shownDocument {
	var chunks int32
	for i, d := range documents {
		if chunks += d.chunks; chunks >= indexPage && i > 0 {
			return documents[:i]
		}
	}
	return documents
}

// indexSearch asks Qdrant for what a search is near to.
type indexSearch struct {
	queries *dbgen.Queries
	qdrant  *qdrant.Client
	name    string
}

// Nearest asks for the best chunks of the connectors that the reader may see now, in no order.
func (x *indexSearch) Nearest(ctx context.Context, query Query, reader Reader, limit int) ([]Candidate, error) {
	row, err := x.queries.SearchIndex(ctx)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Name != x.name {
		return nil, fmt.Errorf("no index %s is kept: give semantic the same QDRANT_URL and QDRANT_COLLECTION, or take QDRANT_URL away to search in Postgres", x.name)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the search index: %w", err)
	}
	connectors, err := x.queries.ReadableConnectors(ctx, dbgen.ReadableConnectorsParams{
		UserID: reader.UserID, Groups: append([]string{}, reader.Groups...),
	})
	if err != nil || len(connectors) == 0 {
		return nil, err
	}
	collection := x.qdrant.Collection(collectionName(row))
	hits, err := collection.Nearest(ctx, query.Vector, connectors, longest(query.Words), limit, rareLimit)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, len(hits))
	for i, hit := range hits {
		key, err := keyOfVersion(hit.Payload)
		if err != nil {
			return nil, fmt.Errorf("a point of collection %s is not ours: %w", collection.Name, err)
		}
		candidates[i] = Candidate{Key: key, No: hit.Payload.No, Score: hit.Score}
	}
	return candidates, nil
}

func longest(words []string) []string {
	sorted := slices.SortedStableFunc(slices.Values(words), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return sorted[:min(rareWords, len(sorted))]
}
