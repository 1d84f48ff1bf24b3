package semantic

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
)

// BenchmarkStoreWithAnIndex stores runs in turns: without the triggers that note changes, with them, with an index kept but
// its changes only noted, and with these brought behind it to a server that only takes them. It prints the ratios to the
// first.
func BenchmarkStoreWithAnIndex(b *testing.B) {
	documents, turns := 5_000, 8
	if testing.Short() {
		documents, turns = 500, 1
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write([]byte(`{"result": {"status": "completed", "config": {"params": {"vectors": {"size": 512, "distance": "Dot"}}}}}`))
	}))
	b.Cleanup(server.Close)
	f := onDatabase(b)
	f.qdrant = config.Qdrant{URL: server.URL, Collection: "bench"}
	f.Semantic = f.service(f.connects())
	index := f.index
	require.NoError(b, index.Look(ctx))
	f.index = nil // what a store does in the background is measured by itself
	for range b.N {
		var took [4]time.Duration
		for range turns {
			for i := range took {
				f.exec(`DELETE FROM search_index`)
				f.exec(`DELETE FROM search_index_changes`)
				f.exec(`ALTER TABLE documents ` + map[bool]string{true: "DISABLE", false: "ENABLE"}[i == 0] + ` TRIGGER USER`)
				if i >= 2 { // as if all that was stored before were in it
					f.exec(`INSERT INTO search_index (name, filled) VALUES ('bench-hash-512-v1', true)`)
				}
				c := f.syncing()
				took[i] += storeRange(b, c, 0, documents, 0, 0)
				if i == 3 {
					began := time.Now()
					require.NoError(b, index.bringAll(ctx))
					took[i] += time.Since(began)
				}
			}
		}
		for i, name := range []string{"triggers", "noted", "brought"} {
			b.ReportMetric(took[i+1].Seconds()/took[0].Seconds(), fmt.Sprint(name, "-ratio"))
		}
		b.ReportMetric(float64(turns*documents)/took[0].Seconds(), "documents/s")
	}
}
