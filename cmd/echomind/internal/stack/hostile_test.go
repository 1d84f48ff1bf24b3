package stack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
)

// bomb is HTML whose open <b> the parser clones with all its attributes at each <p>: 65 KB that ask for gigabytes.
func bomb() string {
	var page strings.Builder
	page.WriteString("<!doctype html><title>bomb</title><p><b")
	for i := range 5000 {
		fmt.Fprintf(&page, " a%d", i)
	}
	return page.String() + "></p>" + strings.Repeat("<p>x", 8000)
}

const tooMuch = "could not be read: needs more than 256 MB"

func TestAFileThatTakesTooMuchMemoryFailsAlone(t *testing.T) {
	root := writeDocs(t, 20)
	require.NoError(t, os.WriteFile(filepath.Join(root, "bomb.html"), []byte(bomb()), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "line.csv"), []byte(strings.Repeat("a,", 16<<20)), 0o600))
	conn, stop := run(t, dataFolder(t), root)
	defer stop()
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root, "max_file_bytes": 32 << 20})
	require.Equal(t, "completed", verdict(t, conn, id))
	require.Equal(t, map[string]string{"bomb.html": tooMuch, "line.csv": tooMuch}, failed(t, conn, id))
	require.Equal(t, 20, stored(t, conn, id))
}

func TestAPageThatTakesTooMuchMemoryFailsAlone(t *testing.T) {
	pages := map[string]string{
		"/":           `<a href=bomb>1</a><a href=br>2</a><a href=plain>3</a>` + strings.Repeat("<p>words of the first page</p>", 10),
		"/bomb":       bomb(),
		"/br":         "<title>br</title><p>zebra</p>" + strings.Repeat("<br>", 2<<20-1000) + "<a href=behind>4</a>",
		"/plain":      "<p>plain words</p>",
		"/behind":     "<p>words behind many breaks</p>",
		"/robots.txt": "",
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
	}))
	defer site.Close()
	conn, stop := run(t, dataFolder(t), t.TempDir(), func(cfg *stack.Config) { cfg.Chunker.AllowCIDRs = []string{"127.0.0.0/8"} })
	defer stop()
	id := insert(t, conn, "web", map[string]any{"url": site.URL})
	require.Equal(t, "completed", verdict(t, conn, id))
	require.Equal(t, map[string]string{site.URL + "/bomb": tooMuch}, failed(t, conn, id))
	require.Equal(t, 4, stored(t, conn, id), "8 MiB of breaks are read, and what they lead to")
}

func failed(t *testing.T, conn *pgx.Conn, id int) map[string]string {
	t.Helper()
	rows, err := conn.Query(context.Background(), `SELECT source_id, error FROM documents WHERE connector_id = $1 AND error <> ''`, id)
	require.NoError(t, err)
	reasons := map[string]string{}
	for rows.Next() {
		var name, reason string
		require.NoError(t, rows.Scan(&name, &reason))
		reasons[name] = reason
	}
	require.NoError(t, rows.Err())
	return reasons
}

func stored(t *testing.T, conn *pgx.Conn, id int) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT count(*) FROM documents WHERE connector_id = $1
		AND coalesce(error, '') = '' AND deleted_at IS NULL`, id).Scan(&n))
	return n
}
