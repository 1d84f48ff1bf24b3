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
	// share is the part of the remaining memory that Go aims at: the kernel counts memory that is not Go's.
	share = 0.9
	// least is the smallest heap for a service with children. With less the garbage collector would run all the time.
	least = 128 << 20
)

// reserved is the memory for the children of all services of this process.
var reserved struct {
	sync.Mutex
	bytes int64
}

// LimitHeap makes the garbage collector work harder when this process comes near to its container's limit, less the memory of
// all children. It warns where too little is left. GOMEMLIMIT takes precedence. Services that run in one process each call it.
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

// containerLimit is the memory limit of this process's control groups, in bytes; 0 = no limit is known.
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
		// In a container the process's own group is often mounted at the top, whatever the path says.
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

// unlimited is the smallest value by which version 1 says that a group has no limit.
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
