package stack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/testonly/testkit"
)

// becomes waits until a connector has come to a status.
func becomes(t *testing.T, conn *pgx.Conn, id int, want string) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() error {
		var status, message string
		err := conn.QueryRow(context.Background(), `SELECT status, coalesce(status_message, '') FROM connectors WHERE id = $1`, id).Scan(&status, &message)
		if err == nil && status != want {
			err = fmt.Errorf("it is %s (%s), want %s", status, message, want)
		}
		return err
	})
}

func TestWhatOtherRootsAndRangesAllowIsReadAfterTheRestartAndNothingElseIsTriedAgain(t *testing.T) {
	root, data := writeDocs(t, 3), dataFolder(t)
	site := httptest.NewServer(http.FileServer(http.Dir(writeDocs(t, 3))))
	defer site.Close()

	conn, stop := run(t, data, t.TempDir())
	folder := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	page := insert(t, conn, "web", map[string]any{"url": site.URL})
	missing := insert(t, conn, "file", map[string]any{"url": "file://" + root + "/nothing"})
	for _, id := range []int{folder, page, missing} {
		becomes(t, conn, id, "ERROR")
	}
	stop()

	conn, stop = run(t, data, root, func(cfg *stack.Config) { cfg.Chunker.AllowCIDRs = []string{"127.0.0.0/8", "::1/128"} })
	defer stop()
	becomes(t, conn, folder, "ACTIVE")
	becomes(t, conn, page, "ACTIVE")
	// Its folder is in a root now, and does not exist: only its user can mend that.
	var runs int
	testkit.Eventually(t, 60*time.Second, func() error {
		err := conn.QueryRow(context.Background(), `SELECT count(*) FROM runs WHERE connector_id = $1 AND error_message LIKE '%does not exist%'`, missing).Scan(&runs)
		if err == nil && runs != 1 {
			err = fmt.Errorf("%d runs have found that the folder does not exist", runs)
		}
		return err
	})
	becomes(t, conn, missing, "ERROR")
	var remembered, audited int
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT count(*) FROM audit WHERE action = 'connectors.retry_refused' AND connector_id = ANY ($1)`, []int{folder, page, missing}).Scan(&audited))
	require.Equal(t, 3, audited)
	require.NoError(t, conn.QueryRow(context.Background(), `SELECT count(*) FROM refused_connectors r JOIN connectors c ON c.id = r.connector_id AND c.over_at = r.over_at WHERE c.status = 'ERROR'`).Scan(&remembered))
	require.Zero(t, remembered, "no refusal stands")
}
