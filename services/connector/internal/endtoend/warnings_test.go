package endtoend

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/testkit"
)

// A service is stopped while a handler is at work, which returns without an error within the grace: a rollout. With the real semantic.
func TestWhatARunSaysThatCompletesDuringACleanStopIsKept(t *testing.T) {
	for name, documents := range map[string]int{"nothing new": 0, "some documents": 3} {
		t.Run(name, func(t *testing.T) {
			l := newStorage(t, "file", `{}`)
			const runs = 6
			lost := 0
			for round := range runs {
				begun, goOn := make(chan struct{}), make(chan struct{})
				process := connect.NewProcess(testkit.Logger(t))
				servers, err := connect.Open(context.Background(), config.Common{DatabaseURL: l.database, NATSURL: l.broker, DatabaseMaxConns: 4}, "test", process)
				require.NoError(t, err)
				cfg := worker.DefaultConfig()
				cfg.Slots, cfg.Grace = 1, 8*time.Second
				w, err := worker.New(l.kind, func(ctx context.Context, run *worker.Run) error {
					run.Warn("three of ten were left out")
					for i := range documents {
						id := fmt.Sprint(round, "/", i)
						if err := run.Put(ctx, worker.Document{SourceID: id, Title: id, VersionToken: "v1", ContentHash: "aa", Chunks: []chunk.Chunk{{Text: "text", End: 4}}}); err != nil {
							return err
						}
					}
					close(begun)
					<-goOn
					return nil
				}, cfg, servers, process)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- w.Run(ctx) }()
				session := l.dispatch()
				<-begun
				cancel()
				close(goOn)
				require.NoError(t, errors.Join(<-ended, servers.Close()))
				verdict := l.verdict(session)
				var warnings int
				require.NoError(t, l.pool.QueryRow(context.Background(), `SELECT coalesce(cardinality(warnings), 0) FROM scheduler_runs WHERE id = $1`, session).Scan(&warnings))
				require.NotEmpty(t, verdict)
				lost += 1 - warnings
			}
			require.Zero(t, lost, "of %d", runs)
		})
	}
}
