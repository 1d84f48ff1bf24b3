package extract_test

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/services/internal/extract"
)

func TestMain(m *testing.M) {
	confine.Serve(extract.Task)
	goleak.VerifyTestMain(m)
}

// confined reads in child processes with the memory that services have.
func confined(t testing.TB) extract.Reader {
	t.Helper()
	pool, err := confine.New(t.Context(), 2, confine.Limits{MemoryMB: 256}, slog.New(slog.DiscardHandler),
		confine.NewMetrics(prometheus.NewRegistry()))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return extract.In(pool.Share("somebody"))
}
