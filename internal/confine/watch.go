package confine

import (
	"os"
	"runtime/metrics"
	"syscall"
	"time"
)

// What a child that ends itself says by its exit code. The Go runtime's own is 2.
const (
	exitMemory = 86
	exitCPU    = 87
	exitOrphan = 88
)

const (
	watchEvery = 20 * time.Millisecond
	// retireShare: a child that has used this share of its memory for one request ends after it, so that the next one
	// finds all of it: the kernel counts what is mapped, also where Go has freed it.
	retireShare = 4
)

// watch ends this process when a request takes too much. It sleeps while there is none.
type watch struct {
	timer   *time.Timer
	samples []metrics.Sample
	parent  int
	// memory is how much a request may use beyond base, what the bare process has.
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

// end tells whether the process has grown so much that it should end.
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

// used is the memory that Go holds of the system.
func (w *watch) used() uint64 {
	metrics.Read(w.samples)
	return w.samples[0].Value.Uint64() - w.samples[1].Value.Uint64()
}

// cpuTime is what all threads have used.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
