package confine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
)

// childName is the first argument of a child, and the name that ps shows.
const childName = "echomind-reader"

// Task is a function that a child can run.
type Task struct {
	// Name is the name by which Do finds the task.
	Name string
	// Run answers a request. It must keep no reference to either. A panic fails the request.
	Run func(request []byte) []byte
}

// served says that this program called Serve. Otherwise its child would be the whole program, which starts children again.
var served atomic.Bool

// Serve turns this process into a child if it was started as one, and then does not return. It is the first call in main, and
// in TestMain, of every program that makes a Pool. Processes that this program starts later do not inherit the files that it
// was started with.
func Serve(tasks ...Task) {
	served.Store(true)
	if len(os.Args) != 2 || os.Args[0] != childName {
		closeOnExec()
		return
	}
	if err := serve(os.Args[1], tasks); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(limit string, tasks []Task) error {
	memory, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		return fmt.Errorf("read the limit of memory: %w", err)
	}
	w := newWatch(memory)
	runtime.GOMAXPROCS(maxThreads)
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(int64(w.base) + memory/4*3)
	debug.SetMaxStack(int(memory / 4))
	holds, err := dropRights(memory)
	if err != nil {
		return err
	}
	if err := writeAnswer(os.Stdout, 0, []byte(holds)); err != nil {
		return err
	}
	in := bufio.NewReaderSize(os.Stdin, bufferBytes)
	var request []byte
	for {
		task, body, cpu, err := readRequest(in, request)
		if errors.Is(err, io.EOF) {
			return nil // the parent ends us, or is gone
		}
		if err != nil {
			return err
		}
		w.begin(cpu)
		flags, answer := run(tasks, task, body)
		if w.end() {
			flags |= flagRetire
		}
		if err := writeAnswer(os.Stdout, flags, answer); err != nil {
			return err
		}
		if request = body[:0]; cap(request) > bufferBytes {
			request = nil
		}
	}
}

// maxThreads leaves one thread to the garbage collector; other children read other documents at the same time.
const maxThreads = 2

// gcPercent trades memory, which is bounded, for time.
const gcPercent = 400

// run answers a request.
func run(tasks []Task, name string, request []byte) (flags byte, answer []byte) {
	defer func() {
		if p := recover(); p != nil {
			flags, answer = flagBroken|flagRetire, fmt.Appendf(nil, "%v", p)
		}
	}()
	for _, t := range tasks {
		if t.Name == name {
			return 0, t.Run(request)
		}
	}
	panic(fmt.Sprintf("there is no task %q", name))
}
