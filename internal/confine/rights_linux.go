package confine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	abi "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

const (
	// maxBareData is more than a bare Go program maps for writing (45 MB; 82 MB with cgo). A program that maps more reserves
	// memory that it does not use, as with the race detector (310 MB), and RLIMIT_DATA would count all of it.
	maxBareData = 256 << 20
	// threadsData is for the stacks of threads that the runtime starts later, 8 MB each with cgo.
	threadsData = 64 << 20
)

// attributes have the kernel kill a child when the thread that forked it ends; see spawn. A session of its own keeps Ctrl-C
// from ending a child before its parent has stopped.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// lessUrgent is added to the niceness of children.
const lessUrgent = 10

// yieldCPU lowers the priority of this thread and of the processes that it forks, below the service's. Linux has a priority for
// each thread.
func yieldCPU() {
	if raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil { // raw is 20 less the niceness
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, min(20-raw+lessUrgent, 19))
	}
}

// ourselves is this program's file, even if another file has replaced it since.
func ourselves() (string, error) { return "/proc/self/exe", nil }

// dropRights gives up all rights that a child does not need, and names the limits that are in force.
func dropRights(memory int64) (holds string, err error) {
	// Where the machine runs out of memory, the kernel kills a child first. Some containers do not allow this setting.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	data := mappedData()
	// The runtime opens its poller at the first timer; after the limits are set it could not.
	time.Sleep(time.Nanosecond)
	var said []string
	if version, err := abi.LandlockGetABIVersion(); err == nil {
		if err := landlock.V7.BestEffort().Restrict(); err != nil {
			return "", fmt.Errorf("give up files by Landlock: %w", err)
		}
		said = append(said, fmt.Sprintf("landlock %d", version))
	}
	limits := []struct {
		name     string
		resource int
		value    uint64
	}{
		{"", syscall.RLIMIT_CORE, 0}, {"", syscall.RLIMIT_FSIZE, 0}, {"rlimit_nofile", syscall.RLIMIT_NOFILE, 0},
	}
	if data > 0 && data < maxBareData {
		limits = append(limits, struct {
			name     string
			resource int
			value    uint64
		}{"rlimit_data", syscall.RLIMIT_DATA, uint64(data + threadsData + memory)})
	}
	for _, l := range limits {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return "", fmt.Errorf("set the limit %d to %d: %w", l.resource, l.value, err)
		}
		if l.name != "" {
			said = append(said, l.name)
		}
	}
	return strings.Join(append(said, "watch"), ", "), nil
}

// closeOnExec closes, in children, the files that a shell or a supervisor left open here: Go never passes on its own.
func closeOnExec() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // without /proc no child starts either
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// mappedData is the memory that RLIMIT_DATA counts; 0 = unknown.
func mappedData() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmData:"))
	line, _, _ := bytes.Cut(after, []byte("kB"))
	kb, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}
