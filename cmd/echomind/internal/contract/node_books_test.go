//go:build node

package contract

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// answers is a library that gives the same answer to every question under a path.
func answers(t *testing.T, paths map[string]string) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, text := range paths {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// JSON.parse says in its error what it was given.
func TestASubscriberInJavaScriptFailsARunWhoseErrorHoldsNULAndGoesOn(t *testing.T) {
	s := newShelf(t, map[string]string{"moby": "a whale swims"})
	bad := s.add(map[string]string{"url": answers(t, map[string]string{"/books": "\x00abc"})})
	s.start()
	s.becomes(bad, "ERROR", "failed: transient failure")
	require.NotEmpty(t, ask[string](s.database, `SELECT status_message FROM connectors WHERE id = $1`, bad))
	s.becomes(s.id, "ACTIVE", "completed")
	s.put("emma", "a lady rides")
	s.due()
	s.becomes(s.id, "ACTIVE", "completed", "completed")
}

func TestASubscriberInJavaScriptSplitsWhatHasNoParagraphs(t *testing.T) {
	s := newShelf(t, map[string]string{
		"lines":   strings.Repeat("a line of a long book\r\n\r\n", 40_000) + "it ends with a cormorant",
		"letters": strings.Repeat("añ漢🐋", 60_000),
		"tiny":    strings.Repeat("a\n\n", 200_000),
		"nul":     "a whale\x00 swims",
	})
	s.start()
	s.becomes(s.id, "ACTIVE", "completed")
	require.Equal(t, 4, strings.Count(s.documents(), " stored "), s.documents())
	require.Equal(t, "lines", s.finds("cormorant"))
	require.Equal(t, "nul", s.finds("whale"))
	for id, book := range map[string]string{"lines": s.books["lines"], "letters": s.books["letters"], "tiny": s.books["tiny"]} {
		text := ask[string](s.database, `SELECT string_agg(c.text, '' ORDER BY c.no) FROM documents d
			JOIN chunks c ON c.document_id = d.id AND c.try_id = d.try_id AND c.first_no = d.first_no WHERE d.source_id = $1`, id)
		require.True(t, text == book, "%s is not what the library has", id)
	}
}

func TestASubscriberInJavaScriptFailsADocumentThatIsTooLargeAndNoOther(t *testing.T) {
	s := newShelf(t, nil)
	list, err := json.Marshal([]map[string]string{
		{"id": "huge", "title": "Huge", "version": strings.Repeat("7", 1<<20)},
		{"id": "moby", "title": strings.Repeat("Moby Dick", 1<<17), "version": "1"},
	})
	require.NoError(t, err)
	books := s.add(map[string]string{"url": answers(t, map[string]string{"/books": string(list), "/books/{id}": "a whale swims"})})
	s.start()
	s.becomes(books, "ACTIVE", "completed")
	require.Equal(t, "huge failed, moby stored", ask[string](s.database,
		`SELECT string_agg(source_id || ' ' || status, ', ' ORDER BY source_id) FROM documents WHERE connector_id = $1`, books))
	require.Contains(t, ask[string](s.database, `SELECT error FROM documents WHERE source_id = 'huge'`), "more than 524288")
}
