package room

import (
	"bytes"
	"log/slog"
	"os"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTheContainersLimitIsTheLeastOfItsGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		bytes int64
	}{
		"no groups":             {nil, 0},
		"version 2, at the top": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1610612736\n"}, 1536 << 20},
		"version 2, below": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
		}, 1 << 30},
		"version 1": {map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 512 << 20},
		"no limit": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
	} {
		files := fstest.MapFS{}
		for file, content := range c.files {
			files[file] = &fstest.MapFile{Data: []byte(content)}
		}
		require.Equal(t, c.bytes, containerLimit(files), name)
	}
}

func TestTheHeapIsLimitedToWhatChildrenLeave(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	container := containerLimit(os.DirFS("/"))
	t.Setenv("GOMEMLIMIT", "1GiB")
	LimitHeap(1<<40, slog.New(slog.DiscardHandler))
	require.Equal(t, before, debug.SetMemoryLimit(-1), "GOMEMLIMIT decides")
	require.NoError(t, os.Unsetenv("GOMEMLIMIT"))
	var said bytes.Buffer
	LimitHeap(1<<40, slog.New(slog.NewTextHandler(&said, nil)))
	if container == 0 {
		require.Equal(t, before, debug.SetMemoryLimit(-1))
		return
	}
	require.EqualValues(t, least, debug.SetMemoryLimit(-1))
	require.Contains(t, said.String(), "READ_CHILDREN")
	reserved.bytes = 0
}
