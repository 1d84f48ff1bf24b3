package stack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
)

// The figures under "Size" of docs/operations.md are printed with OPERATIONS_FIGURES set; without it little is synced.
func TestSizes(t *testing.T) {
	documents, connectors, rounds := 50, 10, 2
	if os.Getenv("OPERATIONS_FIGURES") != "" {
		documents, connectors, rounds = 5000, 500, 10
	}
	release, err := programs()
	require.NoError(t, err)
	r := newRollout(t, testkit.Database(t, db.Up))
	js := testkit.JetStream(t, r.broker)
	r.root = writeDocs(t, documents)
	small := filepath.Join(r.root, "small")
	require.NoError(t, os.Mkdir(small, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(small, "one.txt"), []byte("one"), 0o600))
	for _, name := range []string{"scheduler", "chunker"} {
		r.isReady(r.start(release, name))
	}

	size := func(what string, each int, unit string, tables ...string) {
		t.Helper()
		var bytes int64
		require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(part)) FROM unnest($1::text[]) name,
			LATERAL (SELECT name::regclass AS part UNION SELECT relid FROM pg_partition_tree(name::regclass)) parts`,
			tables).Scan(&bytes))
		t.Logf("%s: %d bytes, %d each of %d %s", what, bytes, bytes/int64(each), each, unit)
	}
	stream := func(name string) {
		t.Helper()
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		state := s.CachedInfo().State
		t.Logf("stream %s: %d messages, %d bytes, %d each", name, state.Msgs, state.Bytes, state.Bytes/max(state.Msgs, 1))
	}

	// Without semantic everything stays in the stream.
	id := insert(t, r.conn, "file", map[string]any{"url": "file://" + r.root, "include": []string{"*.md"}})
	testkit.Eventually(t, 2*time.Minute, func() error {
		var fetched bool
		err := r.conn.QueryRow(t.Context(), `SELECT fetched_at IS NOT NULL FROM scheduler_runs WHERE connector_id = $1`, id).Scan(&fetched)
		if err == nil && !fetched {
			err = fmt.Errorf("not fetched")
		}
		return err
	})
	stream(topology.DocumentStream)
	r.isReady(r.start(release, "semantic"))
	require.Equal(t, "completed", verdict(t, r.conn, id))
	var chunks int
	require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT count(*) FROM chunks`).Scan(&chunks))
	size("documents", documents, "documents", "documents")
	size("chunks", chunks, "chunks", "chunks")
	size("what was taken in, kept until the run is swept", documents, "documents", "run_messages")

	_, err = r.conn.Exec(t.Context(), `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		SELECT 'small', 'file', 1, $1, 60 FROM generate_series(1, $2)`, `{"url":"file://`+small+`"}`, connectors)
	require.NoError(t, err)
	began := time.Now()
	for round := range rounds {
		testkit.Eventually(t, 2*time.Minute, func() error {
			var n int
			err := r.conn.QueryRow(t.Context(), `SELECT count(*) FROM scheduler_runs WHERE status IN ('completed', 'skipped')`).Scan(&n)
			if err == nil && n < 1+connectors*(round+1) {
				err = fmt.Errorf("%d runs", n)
			}
			return err
		})
		_, err := r.conn.Exec(t.Context(), `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id <> $1`, id)
		require.NoError(t, err)
	}
	t.Logf("%d runs of one unchanged document took %s", connectors*rounds, time.Since(began).Round(time.Second))
	var runs int
	require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT count(*) FROM runs`).Scan(&runs))
	size("the ledger, which is appended to", runs, "runs", "runs")
	size("runs in flight, without VACUUM", runs, "runs", "open_runs")
	size("connectors", connectors, "connectors", "connectors")
	if runtime.GOOS != "linux" {
		return // others have no /proc
	}
	for _, m := range r.fleet {
		memory, cpu := usage(t, m.cmd.Process.Pid)
		var connections int
		require.NoError(t, r.conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name LIKE 'echomind-' || $1 || '%'`, m.name).Scan(&connections))
		t.Logf("%s: %d MB at its peak, %s of processor time, %d connections", m.name, memory>>10, cpu, connections)
	}
}

// usage is a process's peak memory in kB, and its processor time.
func usage(t *testing.T, pid int) (memory int, cpu time.Duration) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	memory, err = strconv.Atoi(strings.Fields(peak)[0])
	require.NoError(t, err)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	for _, ticks := range strings.Fields(rest)[11:13] {
		n, err := strconv.Atoi(ticks)
		require.NoError(t, err)
		cpu += time.Duration(n) * 10 * time.Millisecond
	}
	return memory, cpu
}
