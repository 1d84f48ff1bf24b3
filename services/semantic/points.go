package semantic

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/semantic/internal/dbgen"
	"github.com/echomind/sync/services/semantic/internal/qdrant"
)

// rareWords of a query are searched for by themselves, because in a long chunk one word is lost in the noise of a hashed
// vector: the longest ones, because longer words are rarer.
const rareWords = 4

// newCollection is the client of the collection for an embedder's vectors.
func newCollection(cfg config.Qdrant, embedder Embedder) *qdrant.Collection {
	return qdrant.New(cfg, cfg.Collection+"-"+embedder.Name())
}

// pointID is the same whenever a chunk is brought.
func pointID(key Key, no int32) uuid.UUID {
	id := binary.BigEndian.AppendUint64(nil, uint64(key.FirstNo))
	id = binary.BigEndian.AppendUint64(id, uint64(key.DocumentID))
	return uuid.NewSHA1(key.Session, binary.BigEndian.AppendUint32(id, uint32(no)))
}

// version names what a document shows: a message of a session begins one document.
func version(key Key) string { return key.Session.String() + "/" + strconv.FormatInt(key.FirstNo, 10) }

// keyOfVersion is the inverse of version.
func keyOfVersion(p qdrant.Payload) (Key, error) {
	session, firstNo, _ := strings.Cut(p.Version, "/")
	key := Key{DocumentID: p.DocumentID}
	var err error
	if key.Session, err = uuid.Parse(session); err != nil {
		return Key{}, fmt.Errorf("version %q: %w", p.Version, err)
	}
	if key.FirstNo, err = strconv.ParseInt(firstNo, 10, 64); err != nil {
		return Key{}, fmt.Errorf("version %q: %w", p.Version, err)
	}
	return key, nil
}

// showing is what changed documents show now.
type showing struct {
	documents  []int64 // all of them
	versions   []string
	connectors map[int64]int32
	// The keys of those that show something.
	sessions []uuid.UUID
	firstNos []int64
	ids      []int64
}

func newShowing(rows []dbgen.ChangedDocumentsRow) showing {
	s := showing{connectors: map[int64]int32{}}
	for _, row := range rows {
		if slices.Contains(s.documents, row.DocumentID) {
			continue // it has changed twice
		}
		s.documents = append(s.documents, row.DocumentID)
		if row.ConnectorID == nil || row.Session == nil || row.FirstNo == nil {
			continue
		}
		key := Key{Session: *row.Session, FirstNo: *row.FirstNo, DocumentID: row.DocumentID}
		s.versions = append(s.versions, version(key))
		s.connectors[key.DocumentID] = *row.ConnectorID
		s.sessions, s.firstNos, s.ids = append(s.sessions, key.Session), append(s.firstNos, key.FirstNo), append(s.ids, key.DocumentID)
	}
	return s
}

// indexSearch asks Qdrant for what a search is near to.
type indexSearch struct {
	queries    *dbgen.Queries
	collection *qdrant.Collection
}

// Nearest asks for the best chunks of the connectors that the reader may see now, in no order.
func (x *indexSearch) Nearest(ctx context.Context, query Query, reader Reader, limit int) ([]Candidate, error) {
	connectors, err := x.queries.ReadableConnectors(ctx, dbgen.ReadableConnectorsParams{
		UserID: reader.UserID, Groups: append([]string{}, reader.Groups...),
	})
	if err != nil || len(connectors) == 0 {
		return nil, err
	}
	hits, err := x.collection.Nearest(ctx, query.Vector, connectors, longest(query.Words), limit)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, len(hits))
	for i, hit := range hits {
		key, err := keyOfVersion(hit.Payload)
		if err != nil {
			return nil, fmt.Errorf("a point of collection %s is not ours: %w", x.collection.Name, err)
		}
		candidates[i] = Candidate{Key: key, No: hit.Payload.No, Score: hit.Score}
	}
	return candidates, nil
}

func longest(words []string) []string {
	sorted := slices.SortedStableFunc(slices.Values(words), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return sorted[:min(rareWords, len(sorted))]
}
