package stack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/testkit"
)

// built is where the programs are; TestMain removes it.
var built string

// programs builds the four programs once.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "echomind-programs-")
	if err != nil {
		return "", err
	}
	built = dir
	const prefix = "github.com/echomind/sync/"
	out, err := exec.Command("go", "build", "-o", dir+"/", prefix+"cmd/echomind", prefix+"services/scheduler/cmd/scheduler",
		prefix+"services/chunker/cmd/chunker", prefix+"services/semantic/cmd/semantic").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func program(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(dir, name))
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// echomindRun is `echomind run` as a process.
func echomindRun(t *testing.T, dataDir, root string) (*exec.Cmd, devstack.Info) {
	t.Helper()
	cmd := program(t, "echomind", "DATABASE_URL=", "NATS_URL=", "ECHOMIND_DATA_DIR="+dataDir, "CHUNKER_FILE_ROOTS="+root, "LOG_LEVEL=warn")
	cmd.Args = append(cmd.Args, "run")
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	info := discover(t, dataDir, cmd.Process.Pid)
	require.Contains(t, string(info.Reach), root, "the command line refuses what sources may not read")
	return cmd, info
}

func discover(t *testing.T, dataDir string, pid int) (info devstack.Info) {
	testkit.Eventually(t, 90*time.Second, func() (err error) {
		if info, err = devstack.Discover(dataDir); err != nil {
			return err
		}
		if info.PID != pid || info.HTTPAddr == "" {
			return fmt.Errorf("not yet: %+v", info)
		}
		return ready(info.HTTPAddr)
	})
	return info
}

func ready(addr string) error {
	answer, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s %w", body, err)
	}
	return err
}

func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "echomind-data-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func writeDocs(t *testing.T, n int) string {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		text := fmt.Sprintf("# Title %d\n\n%s\n", i, strings.Repeat(fmt.Sprintf("Zebra number %d runs over the hill. ", i), 30))
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("doc%d.md", i)), []byte(text), 0o600))
	}
	return root
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func insert(t *testing.T, conn *pgx.Conn, connectorType string, config map[string]any) (id int) {
	t.Helper()
	data, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(context.Background(), `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('test', $1, 1, $2, 60) RETURNING id`, connectorType, data).Scan(&id))
	return id
}

func TestAProcessThatIsKilledLosesNothingAndLeavesNoOrphan(t *testing.T) {
	ctx := context.Background()
	dir, root := dataFolder(t), writeDocs(t, 2000)
	cmd, info := echomindRun(t, dir, root)
	conn := connect(t, info.DatabaseURL)
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	testkit.Eventually(t, 30*time.Second, func() error {
		var status string
		err := conn.QueryRow(ctx, `SELECT status FROM connectors WHERE id = $1`, id).Scan(&status)
		if err == nil && status != "SYNCING" {
			err = fmt.Errorf("status %s", status)
		}
		return err
	})
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	testkit.Eventually(t, 10*time.Second, func() error { // a child that was being forked has the lock until it is another program
		info, err := devstack.Discover(dir)
		if !errors.Is(err, devstack.ErrNotRunning) {
			return fmt.Errorf("it is found: %v, %w", info.PID, err)
		}
		return nil
	})
	again, info := echomindRun(t, dir, root)
	conn = connect(t, info.DatabaseURL)
	testkit.Eventually(t, 60*time.Second, func() error {
		var documents int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM documents JOIN connectors c ON c.id = connector_id
			WHERE c.status = 'ACTIVE' AND documents.status = 'stored' AND c.last_sync_at IS NOT NULL`).Scan(&documents)
		if err == nil && documents != 2000 {
			err = fmt.Errorf("%d documents", documents)
		}
		return err
	})
	require.NoError(t, again.Process.Signal(syscall.SIGTERM))
	require.NoError(t, again.Wait())
	out, _ := exec.Command("pgrep", "-f", dir).CombinedOutput()
	require.Empty(t, string(out), "nothing of this folder runs any more")
}

func TestASecondRunOnTheSameFolderIsRefusedWithAClearMessage(t *testing.T) {
	dir, root := dataFolder(t), t.TempDir()
	first, _ := echomindRun(t, dir, root)
	second := program(t, "echomind", "ECHOMIND_DATA_DIR="+dir, "DATABASE_URL=", "NATS_URL=")
	second.Args = append(second.Args, "run")
	var stderr bytes.Buffer
	second.Stderr = &stderr
	err := second.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, stderr.String(), "already running")
	require.Contains(t, stderr.String(), fmt.Sprint(first.Process.Pid))
	require.Contains(t, stderr.String(), "ECHOMIND_DATA_DIR")
}

func TestTheServicesRunAsProgramsConfiguredByTheEnvironmentAlone(t *testing.T) {
	ctx := context.Background()
	url, nats := testkit.Database(t, db.Up), testkit.NATS(t)
	root := writeDocs(t, 20)
	for _, name := range []string{"scheduler", "chunker", "semantic"} {
		cmd := program(t, name, "DATABASE_URL="+url, "NATS_URL="+nats.URL(), "HTTP_ADDR=127.0.0.1:0",
			"CHUNKER_FILE_ROOTS="+root, "LOG_LEVEL=warn", "SHUTDOWN_GRACE_SECONDS=2")
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(t, cmd.Wait(), "%s ends with code 0", name)
		})
	}
	conn := connect(t, url)
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	require.Equal(t, "completed", verdict(t, conn, id))
	var documents int
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM documents WHERE status = 'stored'`).Scan(&documents))
	require.Equal(t, 20, documents)
}

func TestAServiceRefusesASchemaItWasNotBuiltFor(t *testing.T) {
	url, nats := testkit.Database(t, db.Up), testkit.NATS(t)
	require.NoError(t, db.Down(context.Background(), url, false))
	for _, name := range []string{"scheduler", "chunker", "semantic"} {
		cmd := program(t, name, "DATABASE_URL="+url, "NATS_URL="+nats.URL(), "HTTP_ADDR=127.0.0.1:0")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, name)
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, string(out), "echomind migrate up")
	}
}

func TestAServiceNamesEveryProblemOfItsConfiguration(t *testing.T) {
	cmd := program(t, "scheduler", "DATABASE_URL=", "NATS_URL=http://nowhere", "SCHEDULER_CHECK_INTERVAL_SECONDS=0")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	for _, name := range []string{"DATABASE_URL", "NATS_URL", "SCHEDULER_CHECK_INTERVAL_SECONDS=0: must be at least 1"} {
		require.Contains(t, string(out), name)
	}
}

func TestTheDemoShowsTheWholeThingAndLeavesNothingBehind(t *testing.T) {
	docs, err := filepath.Abs("../../../../docs")
	require.NoError(t, err)
	temporary := dataFolder(t)
	cmd := program(t, "echomind", "DATABASE_URL=", "NATS_URL=", "TMPDIR="+temporary)
	cmd.Args = append(cmd.Args, "demo", "--docs", docs)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, told := range []string{
		"completed: 5 documents", "completed: 1 documents, 4 unchanged", "tangerine", "manual", "new",
	} {
		require.Contains(t, string(out), told)
	}
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left)
}
