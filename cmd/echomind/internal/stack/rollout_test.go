package stack_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/testonly/testkit"
)

const (
	// upgradeSources connectors sync all the time.
	upgradeSources = 6
	// docsOfOne is how many documents each of them has.
	docsOfOne = 4
)

// rollout is a fleet of two of each program, and syncs that never stop while it is replaced.
type rollout struct {
	*testing.T
	database, broker, root string
	conn                   *pgx.Conn
	fleet                  []*member
	round                  int
}

// member is one running program.
type member struct {
	name, addr string
	cmd        *exec.Cmd
	log        *bytes.Buffer
}

func newRollout(t *testing.T, database string) *rollout {
	r := &rollout{T: t, database: database, broker: testkit.NATS(t).URL(), root: t.TempDir(), conn: connect(t, database)}
	t.Cleanup(func() {
		for _, m := range r.fleet {
			_ = m.cmd.Process.Kill()
			_ = m.cmd.Wait()
		}
	})
	return r
}

// start runs a program of a release and does not wait for it.
func (r *rollout) start(release, name string) *member {
	r.Helper()
	port, err := loopback.Port(0)
	require.NoError(r, err)
	m := &member{name: name, addr: loopback.Address(port), cmd: exec.Command(filepath.Join(release, name)), log: &bytes.Buffer{}}
	m.cmd.Env = append(os.Environ(), "DATABASE_URL="+r.database, "NATS_URL="+r.broker, "HTTP_ADDR="+m.addr, "LOG_LEVEL=warn",
		"CHUNKER_FILE_ROOTS="+r.root, "SCHEDULER_CHECK_INTERVAL_SECONDS=1", "SCHEDULER_MAX_CONCURRENT_SYNCS=0",
		"SCHEDULER_LEADER_ELECTION=postgres", "SHUTDOWN_GRACE_SECONDS=10")
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	require.NoError(r, m.cmd.Start())
	r.fleet = append(r.fleet, m)
	return m
}

func (r *rollout) isReady(m *member) {
	r.Helper()
	testkit.Eventually(r, time.Minute, func() error { return ready(m.addr) })
}

// stop ends a member cleanly.
func (r *rollout) stop(m *member) {
	r.Helper()
	require.NoError(r, m.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(r, m.cmd.Wait(), "%s stops cleanly: %s", m.name, m.log)
	r.fleet = slices.DeleteFunc(r.fleet, func(other *member) bool { return other == m })
}

// replace puts a program of a release in the place of a member, as a rolling update does: the new one first.
func (r *rollout) replace(old *member, release string) {
	r.Helper()
	r.isReady(r.start(release, old.name))
	r.stop(old)
}

// change gives every source new content and has it synced.
func (r *rollout) change(conn *pgx.Conn) error {
	r.round++
	for source := range upgradeSources {
		dir := filepath.Join(r.root, fmt.Sprint(source))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for doc := range docsOfOne {
			text := fmt.Sprintf("# Document %d\n\nThis is round %d of source %d.\n", doc, r.round, source)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.md", doc)), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	_, err := conn.Exec(context.Background(), `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE status = 'ACTIVE'`)
	return err
}

// keepSyncing changes every source again and again until the answer is called.
func (r *rollout) keepSyncing() (finish func()) {
	conn, end := connect(r.T, r.database), make(chan struct{})
	require.NoError(r, r.change(conn))
	for source := range upgradeSources {
		insert(r.T, r.conn, "file", map[string]any{"url": "file://" + filepath.Join(r.root, fmt.Sprint(source))})
	}
	var changing sync.WaitGroup
	changing.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(500 * time.Millisecond):
			}
			if err := r.change(conn); err != nil {
				r.Errorf("change the sources: %v", err)
				return
			}
		}
	})
	return func() { close(end); changing.Wait() }
}

// syncs waits until every connector has been synced from now on.
func (r *rollout) syncs() {
	r.Helper()
	var since time.Time
	require.NoError(r, r.conn.QueryRow(r.Context(), `SELECT clock_timestamp()`).Scan(&since))
	testkit.Eventually(r, 90*time.Second, func() error {
		var n int
		err := r.conn.QueryRow(r.Context(), `SELECT count(DISTINCT connector_id) FROM scheduler_runs
			WHERE status = 'completed' AND started_at > $1`, since).Scan(&n)
		if err == nil && n < upgradeSources {
			err = fmt.Errorf("%d of %d were synced", n, upgradeSources)
		}
		return err
	})
}

// rests has everything synced once more, and waits until every connector is at rest and what is stored, once, is the
// last round. It returns what the runs ended in.
func (r *rollout) rests() map[string]int {
	r.Helper()
	var since time.Time
	require.NoError(r, r.conn.QueryRow(r.Context(), `SELECT clock_timestamp()`).Scan(&since))
	_, err := r.conn.Exec(r.Context(), `UPDATE connectors SET trigger_requested_at = clock_timestamp()`)
	require.NoError(r, err)
	testkit.Eventually(r, 2*time.Minute, func() error {
		var busy string
		err := r.conn.QueryRow(r.Context(), `SELECT coalesce(string_agg(concat_ws(' ', id, status, due_reason, status_message,
			next_sync_at - clock_timestamp()), '; '), '') FROM connectors c WHERE c.status <> 'ACTIVE' OR next_sync_at <= clock_timestamp()
			OR EXISTS (SELECT FROM scheduler_runs WHERE connector_id = c.id AND status = 'running') OR NOT EXISTS (SELECT FROM scheduler_runs
				WHERE connector_id = c.id AND status IN ('completed', 'skipped') AND picked_up_at > $1)`, since).Scan(&busy)
		if err == nil && busy != "" {
			err = fmt.Errorf("not at rest: %s", busy)
		}
		return err
	})
	var latest, all int
	require.NoError(r, r.conn.QueryRow(r.Context(), `SELECT count(*) FILTER (WHERE position($1 IN c.text) > 0), count(*)
		FROM documents d JOIN chunks c ON c.document_id = d.id AND c.try_id = d.try_id AND c.first_no = d.first_no
		WHERE d.status = 'stored'`, fmt.Sprintf("round %d of", r.round)).Scan(&latest, &all))
	require.Equal(r, []int{upgradeSources * docsOfOne, upgradeSources * docsOfOne}, []int{latest, all}, "chunks of the last round, and all")
	rows, err := r.conn.Query(r.Context(), `SELECT status || coalesce(': ' || reason, ''), count(*) FROM scheduler_runs GROUP BY 1 ORDER BY 1`)
	require.NoError(r, err)
	verdicts := map[string]int{}
	var verdict string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&verdict, &n}, func() error {
		r.Logf("%d runs %s", n, verdict)
		verdicts[verdict] = n
		return nil
	})
	require.NoError(r, err)
	return verdicts
}
