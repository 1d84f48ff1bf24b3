package api_test

import (
	"net"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/search/qdrant"
	"github.com/echomind/sync/internal/search/qdrant/standin"
	"github.com/echomind/sync/services/api"
)

// source is a connector without documents.
func (w *world) source(name string, of identity.Ownership) int32 {
	w.Helper()
	return one[int32](w, `INSERT INTO connectors (name, type, user_id, scope, scope_id) VALUES ($1, $2, nullif($3, 0), $4, nullif($5, '')) RETURNING id`,
		name, typeOf(of), of.UserID, of.Scope, of.GroupID)
}

// stores puts a document of one part into a connector, of its present configuration, and returns the try that stored it.
func (w *world) stores(connector int32, name, title, address, text string) (document int64, try uuid.UUID) {
	w.Helper()
	embedder := &embed.Hash{}
	vectors, err := embedder.Embed(w.Context(), []string{text})
	require.NoError(w, err)
	try = uuid.New()
	w.exec(`DELETE FROM documents WHERE connector_id = $1 AND source_id = $2`, connector, name)
	document = one[int64](w, `INSERT INTO documents (connector_id, source_id, title, url, status, chunk_count, try_id, first_no, config_version)
		SELECT $1, $2, $3, $4, 'stored', 1, $5, 1, c.config_version FROM connectors c WHERE c.id = $1 RETURNING id`, connector, name, title, address, try)
	w.exec(`INSERT INTO chunks (try_id, first_no, document_id, no, text, heading_path, start_offset, end_offset, embedder, embedding)
		VALUES ($1, 1, $2, 0, $3, '{Animals,Zebras}', 0, length($3), $4, $5)`, try, document, text, embedder.Name(), vectors[0])
	return document, try
}

// finds are the connectors of the hits, the best first.
func (c caller) finds(query string) (found []int32) {
	c.Helper()
	for _, h := range c.get("/search?" + query)["hits"].([]any) {
		found = append(found, int32(h.(map[string]any)["connector_id"].(float64)))
	}
	return found
}

// indexed is a world whose API asks an index on a stand-in for Qdrant, and the collection of it.
func indexed(t *testing.T) (w *world, collection *qdrant.Collection, stop func()) {
	t.Helper()
	server := &standin.Server{}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	end, wait := server.Serve(listener)
	stop = sync.OnceFunc(func() { end(); _ = wait() })
	t.Cleanup(stop)
	at := config.Qdrant{URL: "http://" + listener.Addr().String(), Collection: "test"}
	w = newWorld(t, func(c *api.Config) { c.Qdrant = at })
	name := search.IndexName(at, &embed.Hash{})
	w.exec(`INSERT INTO search_index (name) VALUES ($1)`, name)
	collection = qdrant.New(at).Collection(search.CollectionName(name, one[uuid.UUID](w, `SELECT generation FROM search_index`)))
	require.NoError(t, collection.Create(t.Context(), name, embed.Dimensions))
	return w, collection, stop
}
