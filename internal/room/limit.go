package room

import (
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

const (
	// share is how much of what is left Go aims at: the kernel counts some memory beside Go's.
	share = 0.9
	// least is what a service with children needs at least. Below it the collector would do nothing but collect.
	least = 128 << 20
)

// reserved is what the services of this process keep for their children.
var reserved struct {
	sync.Mutex
	bytes int64
}

// LimitHeap has the collector of garbage work harder when this process comes near to what its container leaves it, once
// all children have taken so many bytes. It says so where that is too little. Where GOMEMLIMIT is set, that decides.
// Services that run in one process each call it.
func LimitHeap(children int64, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	container := containerLimit(os.DirFS("/"))
	if container == 0 {
		return
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.bytes += children
	left := int64(float64(container-reserved.bytes) * share)
	if reserved.bytes > 0 && left < least {
		log.Warn("the container has too little memory for all children that may read at once: hostile documents can have it ended. "+
			"Raise its limit, or lower READ_CHILDREN or READ_MEMORY_MB", "container_bytes", container, "children_bytes", reserved.bytes)
		left = least
	}
	debug.SetMemoryLimit(left)
}

// containerLimit is how many bytes the control groups of this process may have; 0 = no limit is known.
func containerLimit(root fs.FS) (least int64) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		folder, file := "sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" { // version 1
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		// In a container its own group often stands at the top, whatever the path says.
		for at := path.Clean("/" + fields[2]); ; at = path.Dir(at) {
			if n := bytesIn(root, path.Join(folder, at, file)); n > 0 && (least == 0 || n < least) {
				least = n
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// unlimited is what version 1 says of a group without a limit, or more.
const unlimited = 1 << 60

func bytesIn(root fs.FS, file string) int64 {
	content, err := fs.ReadFile(root, file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil || n >= unlimited {
		return 0 // "max"
	}
	return n
}
