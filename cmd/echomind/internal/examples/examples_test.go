// Package examples runs what examples/ shows to other teams, against real servers and services.
package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

const soon = 60 * time.Second

func TestACustomSourceIsSyncedAndFound(t *testing.T) {
	ctx := context.Background()
	url, broker := testkit.Database(t, db.Up), testkit.NATS(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("NATS_URL", broker.URL())
	t.Setenv("HTTP_ADDR", "127.0.0.1:0")
	services(t)
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, `INSERT INTO connector_types (name) VALUES ('notes')`)
	require.NoError(t, err)
	stop := example(t, "customsource")

	file := filepath.Join(t.TempDir(), "notes.txt")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("one: the zebra runs\ntwo: a quiet walrus\n")
	cfg, err := json.Marshal(map[string]string{"file": file})
	require.NoError(t, err)
	var id int
	require.NoError(t, pool.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('mine', 'notes', 1, $1, 60) RETURNING id`, cfg).Scan(&id))
	runs := 0
	synced := func(verdict string) {
		t.Helper()
		runs++
		testkit.Eventually(t, soon, func() error {
			var ended int
			var status, last, state string
			err := pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE r.status <> 'running'), k.status, k.state::text,
				coalesce((array_agg(r.status ORDER BY r.started_at DESC))[1], '')
				FROM connectors k LEFT JOIN scheduler_runs r ON r.connector_id = k.id WHERE k.id = $1 GROUP BY k.id`,
				id).Scan(&ended, &status, &state, &last)
			if err == nil && (ended != runs || status != "ACTIVE" || last != verdict) {
				err = fmt.Errorf("%d runs have ended, the last is %s, the connector is %s, its state %s", ended, last, status, state)
			}
			return err
		})
	}
	finds := func(text string) (ids []string) {
		hits, err := semantic.NewSearcher(pool, config.Qdrant{}).Search(ctx, semantic.Reader{UserID: 1}, text, 1)
		require.NoError(t, err)
		for _, h := range hits {
			ids = append(ids, h.SourceID)
		}
		return ids
	}
	again := func() {
		_, err := pool.Exec(ctx, `UPDATE connectors SET trigger_requested_at = now() WHERE id = $1`, id)
		require.NoError(t, err)
	}

	synced("completed")
	require.Equal(t, []string{"one"}, finds("zebra"))
	again()
	synced("skipped")
	write("two: a loud walrus\nthree: the heron waits\n")
	again()
	synced("completed")
	require.Equal(t, []string{"three"}, finds("heron"))
	require.NotContains(t, finds("zebra"), "one")
	stop()
}

func TestAJobIsCheckedDoneAndSeen(t *testing.T) {
	ctx := context.Background()
	url, broker := testkit.Database(t, db.Up), testkit.NATS(t)
	t.Setenv("DATABASE_URL", url)
	t.Setenv("NATS_URL", broker.URL())
	t.Setenv("HTTP_ADDR", "127.0.0.1:0")
	services(t)
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, `INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	require.NoError(t, err)
	stop := example(t, "wordcount")

	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("one.txt", "the zebra runs")
	cfg, err := json.Marshal(map[string]any{"folder": folder, "at_least": 2})
	require.NoError(t, err)
	var id int
	require.NoError(t, pool.QueryRow(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('mine', 'word_count', 1, $1, 60) RETURNING id`, cfg).Scan(&id))
	ends := func(runs int, want string) {
		t.Helper()
		testkit.Eventually(t, soon, func() error {
			var ended int
			var last string
			err := pool.QueryRow(ctx, `SELECT count(*), coalesce((array_agg(concat_ws(' | ', status, reason, error_message, result::text,
				warnings::text, progress_done || ' of ' || progress_total) ORDER BY started_at DESC))[1], '') FROM runs WHERE connector_id = $1`, id).Scan(&ended, &last)
			if err == nil && (ended != runs || last != want) {
				err = fmt.Errorf("%d runs have ended, the last is %s", ended, last)
			}
			return err
		})
	}
	again := func(with any) {
		_, err := pool.Exec(ctx, `SELECT moves.trigger_sync($1, parameters => $2)`, id, with)
		require.NoError(t, err)
	}
	ends(1, `skipped | 1 texts, fewer than 2`)
	write("two.txt", "a quiet walrus")
	write("three.txt", "\xff")
	again(nil)
	ends(2, `completed | {"texts": 2, "words": 6} | {"three.txt is left out: it is no text of at most 1 MiB"} | 3 of 3`)
	again(`{"at_least": 9}`)
	ends(3, `skipped | 3 texts, fewer than 9`)
	again(`{"folder": "/no/such/folder"}`)
	ends(4, `failed | permanent failure | stat /no/such/folder: no such file or directory`)
	var documents int
	require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM documents`).Scan(&documents))
	require.Zero(t, documents)
	stop()
}

// services runs what the example needs beside it.
func services(t *testing.T) {
	t.Helper()
	var scheduling scheduler.Config
	var storing semantic.Config
	require.NoError(t, config.Load(&scheduling))
	require.NoError(t, config.Load(&storing))
	process := connect.NewProcess(testkit.Logger(t))
	background(t, func(ctx context.Context) error { return scheduler.Run(ctx, scheduling, process) },
		func(ctx context.Context) error { return semantic.Run(ctx, storing, process) })
}

// background runs services until the test ends.
func background(t *testing.T, all ...func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range all {
		group.Go(func() error { return run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("the services ended: %v", err)
		}
	})
}

// moduleOf copies a program of examples/ into a module of its own, as another team has it.
func moduleOf(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	repository, err := filepath.Abs("../../../..")
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(repository, "examples", name, "*"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join(repository, "go.sum")) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600))
	}
	mod := fmt.Sprintf("module example.com/%s\n\ngo 1.26.0\n\nrequire github.com/echomind/sync v0.0.0\n\nreplace github.com/echomind/sync => %s\n",
		name, repository)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	return dir
}

// example builds and starts a program of examples/. The returned function asks it to stop and waits until it has.
func example(t *testing.T, name string) (stop func()) {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = moduleOf(t, name)
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	cmd := exec.Command(program)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(soon):
			t.Fatal("the example does not stop")
		}
	}
}
