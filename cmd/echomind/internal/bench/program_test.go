package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// program is `echomind run` as a process of its own.
type program struct {
	b    *testing.B
	cmd  *exec.Cmd
	info devstack.Info
	pool *pgxpool.Pool
}

func start(b *testing.B, fileRoot string, environment ...string) *program {
	b.Helper()
	dir, err := os.MkdirTemp("", "echomind-bench-")
	require.NoError(b, err)
	require.NoError(b, os.Chmod(dir, 0o711))
	b.Cleanup(func() { require.NoError(b, os.RemoveAll(dir)) })
	binary := filepath.Join(dir, "echomind")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/echomind/sync/cmd/echomind").CombinedOutput()
	require.NoError(b, err, "%s", out)

	data := filepath.Join(dir, "data")
	p := &program{b: b, cmd: exec.Command(binary, "run")}
	p.cmd.Env = append(os.Environ(), "ECHOMIND_DATA_DIR="+data, "CHUNKER_FILE_ROOTS="+fileRoot, "LOG_LEVEL=warn",
		"DATABASE_URL=", "NATS_URL=")
	p.cmd.Env = append(p.cmd.Env, environment...)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, p.cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(b, p.cmd.Wait())
	})
	require.True(b, bufio.NewScanner(stdout).Scan(), "the program says nothing")
	var info devstack.Info
	testkit.Eventually(b, time.Minute, func() (err error) {
		info, err = devstack.Discover(data)
		return err
	})
	p.info = info
	p.pool, err = pgxpool.New(context.Background(), info.DatabaseURL)
	require.NoError(b, err)
	b.Cleanup(p.pool.Close)
	return p
}

// add inserts a file connector that never syncs by itself.
func (p *program) add(folder string) (id int32) {
	err := p.pool.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id, config)
		VALUES ('bench', 'file', 1, jsonb_build_object('url', 'file://' || $1::text)) RETURNING id`, folder).Scan(&id)
	require.NoError(p.b, err)
	return id
}

// sync triggers a connector and returns its verdict, and the seconds from trigger to verdict by Postgres's clock.
func (p *program) sync(id int32) (verdict string, took float64) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var since time.Time
	err := p.pool.QueryRow(ctx, `UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE id = $1
		RETURNING trigger_requested_at`, id).Scan(&since)
	require.NoError(p.b, err)
	run, err := await.Verdict(ctx, p.pool, id, since, nil)
	require.NoError(p.b, err)
	return run.Status, run.CompletedAt.Sub(since).Seconds()
}

// peakRSS is the most memory the process has used so far, in MB.
func (p *program) peakRSS() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.b, err)
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			require.NoError(p.b, err)
			return float64(kb) / 1024
		}
	}
	p.b.Fatal("no VmHWM")
	return 0
}
