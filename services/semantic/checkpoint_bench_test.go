package semantic

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
)

// BenchmarkStoreARunWithCheckpoints stores one long run, in batches of 64 on two workers, with a checkpoint after every
// 200 documents, with these in a listing, and without either, a part of each in turn, and prints the ratios to the last.
func BenchmarkStoreARunWithCheckpoints(b *testing.B) {
	documents := 100_000
	if testing.Short() {
		documents = 2_000
	}
	b.Run(fmt.Sprintf("documents=%d/every=200", documents), func(b *testing.B) {
		f := onDatabase(b)
		f.Semantic = f.service(f.connects())
		for range b.N {
			var took [3]time.Duration
			runs := [3]trip{f.syncing(), f.syncing(), f.syncing()}
			// They grow side by side, so that the machine's moods strike all.
			for from := 0; from < documents; from += 5_000 {
				to := min(from+5_000, documents)
				took[0] += storeRange(b, runs[0], from, to, 0, 0)
				took[1] += storeRange(b, runs[1], from, to, 200, 0)
				took[2] += storeRange(b, runs[2], from, to, 200, 1)
			}
			require.NoError(b, inTime(f.AdvanceStored)) // of two stores at once neither may have seen that the last one is passed
			for _, c := range runs[1:] {
				require.Equal(b, fmt.Sprint(documents), c.page())
			}
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "checkpoint-ratio")
			b.ReportMetric(took[2].Seconds()/took[0].Seconds(), "listing-ratio")
			b.ReportMetric(float64(documents)/took[0].Seconds(), "documents/s")
		}
	})
}

// storeRange stores documents from..to of a run, with a checkpoint after every so many, and says how long it took.
func storeRange(b *testing.B, c trip, from, to, every int, listing int32) time.Duration {
	batches := make(chan []*internalpb.DocumentProcessRequest, (to-from)/32)
	var batch []*internalpb.DocumentProcessRequest
	add := func(m *internalpb.DocumentProcessRequest) {
		if batch = append(batch, m); len(batch) == 64 {
			batches <- batch
			batch = nil
		}
	}
	for i := from; i < to; i++ {
		no := int64(i) + 1
		if every > 0 {
			no += int64(i / every)
		}
		add(c.doc(no, fmt.Sprintf("document %d", i), fmt.Sprintf("text of document %d", i), inListing(listing)))
		if every > 0 && (i+1)%every == 0 {
			add(c.checkpoint(no+1, i+1))
		}
	}
	batches <- batch
	close(batches)
	began := time.Now()
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for batch := range batches {
				if err := c.handles(batch...); err != nil {
					b.Errorf("store: %v", err)
				}
			}
		})
	}
	workers.Wait()
	return time.Since(began)
}
