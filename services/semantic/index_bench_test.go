package semantic

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStoreWithAnIndex stores runs in turns: without the triggers that note changes, with them, with an index kept but
// its changes only noted, and with these brought behind it to the stand-in. It prints the ratios to the
// first.
func BenchmarkStoreWithAnIndex(b *testing.B) {
	documents, turns := 5_000, 8
	if testing.Short() {
		documents, turns = 500, 1
	}
	f := onDatabase(b)
	x := &indexed{fixture: f}
	f.qdrant = startQdrant(b, x)
	f.Semantic = f.service(f.connects())
	index := f.index
	require.NoError(b, index.Look(ctx))
	kept, err := index.queries.SearchIndex(ctx)
	require.NoError(b, err)
	f.index = nil // what a store does in the background is measured by itself
	for range b.N {
		var took [4]time.Duration
		for range turns {
			for i := range took {
				f.exec(`DELETE FROM search_index`)
				f.exec(`DELETE FROM search_index_changes`)
				f.exec(`ALTER TABLE documents ` + map[bool]string{true: "DISABLE", false: "ENABLE"}[i == 0] + ` TRIGGER USER`)
				if i >= 2 { // as if all that was stored before were in it
					f.exec(`INSERT INTO search_index (name, generation) VALUES ('tests-hash-512-v1', $1)`, kept.Generation)
				}
				c := f.syncing()
				took[i] += storeRange(b, c, 0, documents, 0, 0)
				if i == 3 {
					began := time.Now()
					require.NoError(b, index.applyChanges(ctx))
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
