package endtoend

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// actual is a connector of the worker kit, Postgres, NATS and the semantic service.
type actual struct{ *line }

func (r actual) Sync(_ *testing.T, handle func(context.Context, workertest.Run) error) {
	r.Helper()
	r.sync(func(ctx context.Context, run *worker.Run) error { return handle(ctx, run) })
}

func (r actual) Committed(ctx context.Context, page string) error { return r.committed(ctx, page) }

func (r actual) Reconfigure(*testing.T) {
	r.Helper()
	r.exec(`UPDATE connectors SET config = config || '{"again": true}' WHERE id = $1`, r.id)
}

func (r actual) Full(_ *testing.T, full bool) {
	r.Helper()
	var most any
	if full {
		most = 1 // byte
	}
	r.exec(`INSERT INTO owner_quotas (user_id, max_bytes) VALUES (1, $1) ON CONFLICT (user_id) DO UPDATE SET max_bytes = EXCLUDED.max_bytes`, most)
	// One that runs asks again after a while only.
	require.NoError(r, r.semantic.Kill())
	r.semantic = r.start("semantic")
}

func (r actual) Said(t *testing.T, id string) (title, url, mediaType string) {
	t.Helper()
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT title, url, media_type FROM documents WHERE connector_id = $1 AND source_id = $2`,
		r.id, id).Scan(&title, &url, &mediaType))
	return title, url, mediaType
}

func (r actual) Text(_ *testing.T, id string) (text, reason string) {
	r.Helper()
	d := r.documents()[id]
	return d.Text, d.Err
}

func TestTheRealKitKeepsTheContractOfTheConnectorInMemory(t *testing.T) {
	l := newLine(t, "onedrive", "{}")
	workertest.Contract(t, func(t *testing.T) workertest.Connector {
		l.add(t.Name(), "{}")
		return actual{l}
	})
}
