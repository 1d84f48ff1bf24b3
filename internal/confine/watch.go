package confine

import (
	"os"
	"runtime/metrics"
	"syscall"
	"time"
)

// The exit codes by which a child says why it ended itself. The Go runtime's own is 2.
const (
	exitMemory = 86
	exitCPU    = 87
	exitOrphan = 88
)

const (
	watchEvery = 20 * time.Millisecond
	// retireShare is the share of its memory above which a child ends after the request, so that the next request has all of
	// it: the kernel counts mapped memory, also where Go has freed it.
	retireShare = 4
)

// watch ends this process when a request takes too much memory or computing time. It sleeps while there is no request.
type watch struct {
	timer   *time.Timer
	samples []metrics.Sample
	parent  int
	// memory is how much a request may use beyond base, the memory of a bare child.
	memory, base uint64
	cpu, began   time.Duration
}

func newWatch(memory int64) *watch {
	w := &watch{
		samples: []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}},
		memory:  uint64(memory), parent: os.Getppid(),
	}
	w.base = w.used()
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Stop()
	return w
}

func (w *watch) begin(cpu time.Duration) {
	w.began, w.cpu = cpuTime(), cpu
	w.timer.Reset(watchEvery)
}

// end tells whether the process has grown so much that it must end.
func (w *watch) end() (grown bool) {
	w.timer.Stop()
	return w.used() > w.base+w.memory/retireShare
}

func (w *watch) look() {
	switch {
	case w.used() > w.base+w.memory:
		os.Exit(exitMemory)
	case cpuTime()-w.began > w.cpu:
		os.Exit(exitCPU)
	case os.Getppid() != w.parent:
		os.Exit(exitOrphan)
	}
	w.timer.Reset(watchEvery)
}

// used is the memory that Go holds from the system.
func (w *watch) used() uint64 {
	metrics.Read(w.samples)
	return w.samples[0].Value.Uint64() - w.samples[1].Value.Uint64()
}

// cpuTime is the computing time of all threads.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
