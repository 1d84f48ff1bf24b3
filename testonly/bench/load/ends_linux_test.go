package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// owns is set in the environment of the process that starts an API and is killed.
const owns = "ECHOMIND_BENCH_TEST_OWNS_API"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(Serves) != "": // an API that listens, and does nothing else
		if _, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", os.Getenv("API_ADDR")); err != nil {
			panic(err)
		}
		untilKilled()
	case os.Getenv(owns) != "":
		a, err := Start(context.Background(), "", "", 1)
		if err != nil {
			panic(err)
		}
		fmt.Println(a.command.Process.Pid)
		untilKilled()
	}
	os.Exit(testkit.Main(m))
}

// untilKilled waits for a signal that ends this process.
func untilKilled() {
	for {
		_ = syscall.Pause() // the runtime's own signals interrupt it
	}
}

func TestTheAPIEndsWithABenchThatIsKilled(t *testing.T) {
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), owns+"=1")
	says, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(says).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())
	testkit.Eventually(t, 10*time.Second, func() error {
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(status), ") Z ") { // nobody may wait for it here
			return fmt.Errorf("the API, process %d, is still there", pid)
		}
		return nil
	})
}
