package endtoend

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/sdk/worker/workertest"
)

// real is a connector of the worker kit, Postgres, NATS and the semantic service.
type real struct{ *line }

func (r real) Sync(_ *testing.T, handle func(context.Context, workertest.Run) error) {
	r.Helper()
	r.sync(func(ctx context.Context, run *worker.Run) error { return handle(ctx, run) })
}

func (r real) Committed(ctx context.Context, page string) error { return r.committed(ctx, page) }

func (r real) Reconfigure(*testing.T) {
	r.Helper()
	r.exec(`UPDATE connectors SET config = config || '{"again": true}' WHERE id = $1`, r.id)
}

func (r real) Full(_ *testing.T, full bool) {
	r.Helper()
	var most any
	if full {
		most = 1 // byte
	}
	r.exec(`INSERT INTO owner_quotas (user_id, max_bytes) VALUES (1, $1) ON CONFLICT (user_id) DO UPDATE SET max_bytes = EXCLUDED.max_bytes`, most)
	// One that runs asks again after a while only.
	require.NoError(r, r.semantic.Kill())
	r.line.semantic = r.start("semantic")
}

func (r real) Text(_ *testing.T, id string) (text, reason string) {
	r.Helper()
	d := r.documents()[id]
	return d.Text, d.Err
}

func TestTheRealKitKeepsTheContractOfTheConnectorInMemory(t *testing.T) {
	l := newLine(t, "onedrive", "{}")
	workertest.Contract(t, func(t *testing.T) workertest.Connector {
		l.add(t.Name(), "{}")
		return real{l}
	})
}
