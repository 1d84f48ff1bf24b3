package testkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/devstack/datadir"
)

// userArgument makes the test binary a user of another run, for a test to kill.
const userArgument = "-use-the-run-of="

func TestMain(m *testing.M) {
	if parent, found := strings.CutPrefix(os.Args[len(os.Args)-1], userArgument); found {
		use(parseProcess(parent))
	}
	goleak.VerifyTestMain(Closing(m))
}

type joined struct{ Dir, URL, Problem string }

func use(parent process) {
	var said joined
	r, err := joinRunOf(parent)
	if err == nil {
		said.Dir = r.dir
		said.URL, err = r.cluster(context.Background())
	}
	if err != nil {
		said.Problem = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		os.Exit(1)
	}
	select {}
}

// startUser runs a test binary of the run of parent.
func startUser(t *testing.T, parent process) (joined, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(os.Args[0], userArgument+parent.String())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	var said joined
	require.NoError(t, json.Unmarshal(line, &said))
	require.Empty(t, said.Problem)
	return said, cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
}

// startParent stands in for the go command.
func startParent(t *testing.T) (process, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, started := look(cmd.Process.Pid)
	return process{pid: cmd.Process.Pid, started: started}, cmd
}

func answers(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func requireNothingLeft(t *testing.T, run joined) {
	t.Helper()
	Eventually(t, 30*time.Second, func() error {
		if exists(run.Dir) {
			return fmt.Errorf("%s is still there", run.Dir)
		}
		if answers(run.URL) == nil {
			return errors.New("the server still answers")
		}
		return nil
	})
}

func TestOneClusterServesARunAndNothingStaysBehindEvenOfKilledBinaries(t *testing.T) {
	parent, goCommand := startParent(t)
	a, processA := startUser(t, parent)
	b, processB := startUser(t, parent)
	require.Equal(t, a, b)
	kill(t, processA)
	require.NoError(t, answers(b.URL))
	kill(t, processB)

	// Between two packages nobody uses the cluster: it waits for the go command's next one.
	c, processC := startUser(t, parent)
	require.Equal(t, a, c)
	kill(t, goCommand)
	require.NoError(t, answers(c.URL), "the last user keeps it")
	kill(t, processC)
	requireNothingLeft(t, c)
}

func TestABinaryWithoutAGoCommandHasARunOfItsOwn(t *testing.T) {
	a, processA := startUser(t, process{})
	b, processB := startUser(t, process{})
	require.NotEqual(t, a.Dir, b.Dir)
	require.NotEqual(t, a.URL, b.URL)
	kill(t, processA)
	requireNothingLeft(t, a)
	require.NoError(t, answers(b.URL))
	kill(t, processB)
	requireNothingLeft(t, b)
}

// killSupervisor returns when it is dead and its claim is gone: a signal takes its time, one thread of it dies after
// the other, and who still runs is left alone.
func killSupervisor(t *testing.T, run joined) {
	t.Helper()
	claim := filepath.Join(run.Dir, supervisorFile)
	pid, alive, err := datadir.Holder(claim)
	require.NoError(t, err)
	require.True(t, alive)
	supervisor, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, supervisor.Kill())
	Eventually(t, 30*time.Second, func() error {
		if look, _ := look(pid); look != "" {
			return fmt.Errorf("%d still runs", pid)
		}
		if _, held, err := datadir.Holder(claim); held || err != nil {
			return fmt.Errorf("a thread of %d still holds its claim: %w", pid, err)
		}
		return nil
	})
}

func TestTheNextRunCleansUpAfterAKilledSupervisor(t *testing.T) {
	former, user := startUser(t, process{})
	killSupervisor(t, former)
	kill(t, user)

	next, nextUser := startUser(t, process{})
	requireNothingLeft(t, former)
	kill(t, nextUser)
	requireNothingLeft(t, next)
}

func TestAKilledSupervisorIsReplacedForTheRunsNextBinary(t *testing.T) {
	parent, goCommand := startParent(t)
	a, processA := startUser(t, parent)
	killSupervisor(t, a)
	b, processB := startUser(t, parent)
	require.Equal(t, a.Dir, b.Dir)
	require.NoError(t, answers(b.URL))
	kill(t, processA)
	kill(t, goCommand)
	kill(t, processB)
	requireNothingLeft(t, b)
}
